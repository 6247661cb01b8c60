// CRC32C of mapped file bytes whose pages may turn out to be unreadable: the kernel then raises
// SIGBUS in the thread that touches them, which must not end the process. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hearth {

// Nothing: a page cannot be read (bad sector, or the file was cut behind our back).
// The first call installs a handler for SIGBUS that passes on signals which are not ours.
[[nodiscard]] std::optional<std::uint32_t> checksumMapped(std::span<const std::byte> bytes);

}  // namespace hearth
