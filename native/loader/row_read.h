// A part of a tensor, as it lies in its file and in memory. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth {

// Rows of equal size, `stride` bytes apart in the file and without gaps in memory.
struct RowRead {
  std::uint64_t offset = 0;
  std::uint64_t inMemory = 0;
  std::uint64_t rowBytes = 0;
  std::uint64_t stride = 0;  // of no meaning for one row
  std::uint64_t rows = 1;

  [[nodiscard]] std::uint64_t bytes() const { return rowBytes * rows; }
  // Behind the last byte in the file.
  [[nodiscard]] std::uint64_t end() const { return offset + (rows - 1) * stride + rowBytes; }
};

// Bytes [begin, begin + size) of the memory of rows.
struct RowRange {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

// Where the bytes of [offset, offset + size) of the file that belong to `rows` go; they are one
// range, which may be empty.
[[nodiscard]] RowRange rangeOf(const RowRead& rows, std::uint64_t offset, std::uint64_t size);

// Copies these bytes from `file`, which holds [offset, offset + size) of the file, to `into`, where
// the range begins.
void copyRows(const RowRead& rows, std::uint64_t offset, std::uint64_t size, const std::byte* file,
              std::byte* into);

}  // namespace hearth
