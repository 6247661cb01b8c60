// The records that requests and replies of holder_protocol.h carry, as fields: who speaks, a mount,
// memory. Pure, any thread.
#pragma once

#include <cstddef>
#include <span>

#include "holder/holder_field_sink.h"
#include "holder/holder_fields.h"
#include "holder/holder_protocol.h"

namespace hearth {

// Of who says nothing of itself.
inline const HolderHello kSilentHolderHello{
    .oldestVersion = 0, .newestVersion = 0, .features = {}, .release = {}, .instance = 0};

[[nodiscard]] HolderFieldWriter fieldsOf(const HolderHello& hello);
[[nodiscard]] HolderFieldWriter fieldsOf(const HolderRecord& record);
[[nodiscard]] HolderFieldWriter fieldsOf(const HolderMemory& memory);

// True when the field is one of a hello.
bool readHolderHello(HolderFieldSink& in, const HolderFieldValue& field, HolderHello& hello);
// Reads the contents of a field; `outer`, of the enclosing message, refuses a malformed one.
[[nodiscard]] HolderRecord readHolderRecord(HolderFieldSink& outer,
                                            std::span<const std::byte> body);
[[nodiscard]] HolderMemory readHolderMemory(HolderFieldSink& outer,
                                            std::span<const std::byte> body);

}  // namespace hearth
