// One item that a connection has to send: frames and the place of their payload. Moves only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "memory/memory_vector.h"
#include "transport/lent_parts.h"
#include "transport/peer_transport.h"

namespace hearth {

struct SendItem {
  std::vector<std::byte> frame;  // empty for an item that is lent or goes in slices
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keep;  // owns the payload
  MemoryVector source = {};          // more of the payload; host memory
  std::uint64_t requestId = 0;       // of an answer; 0 for everything else
  RequestClass requestClass = RequestClass::kDemand;
  // The remaining frames of an item that goes in slices, with their parts of `payload`, which is
  // the remaining payload. Not for lent items.
  std::deque<LentParts::Part> slices = {};
  std::shared_ptr<LentPayload> lent = nullptr;  // with a payload of the same size
  LentParts parts = {};                         // of a lent item
  // Sent instead of the item, or of its remaining parts, when the lent payload can no longer be
  // had.
  std::vector<std::byte> otherwise = {};
  // Sent instead of the remaining parts, as soon as none is half sent.
  std::vector<std::byte> withdrawn = {};
  bool begun = false;
  bool away = false;     // the lent payload must come from elsewhere
  bool loading = false;  // load() is under way

  [[nodiscard]] bool hasPayload() const { return !payload.empty() || !source.empty(); }
};

}  // namespace hearth
