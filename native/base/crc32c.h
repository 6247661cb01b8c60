// CRC32C (Castagnoli, polynomial 0x1EDC6F41 reflected; RFC 3720 appendix B.4). Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth {

// CRC of `data`, or of (earlier bytes + data) when `crc` is the CRC of the earlier bytes.
// Uses SSE4.2 with three interleaved streams where the CPU has it, else a table.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0);

// CRCs of the blocks of `data`, each of `blockBytes` but perhaps the last.
[[nodiscard]] std::vector<std::uint32_t> crc32cOfBlocks(std::span<const std::byte> data,
                                                        std::size_t blockBytes);

// CRC of A+B from crc(A), crc(B) and B's length in bytes, without reading either.
[[nodiscard]] std::uint32_t crc32cCombine(std::uint32_t crcA, std::uint32_t crcB,
                                          std::uint64_t lengthB);

}  // namespace hearth
