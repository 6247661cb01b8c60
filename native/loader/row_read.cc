#include "loader/row_read.h"

#include <algorithm>
#include <cstring>

namespace hearth {
namespace {

// Bytes of the rows that lie before a place in the file.
std::uint64_t bytesBefore(const RowRead& rows, std::uint64_t place) {
  if (place <= rows.offset) return 0;
  if (rows.rows == 1) return std::min(place - rows.offset, rows.rowBytes);
  const std::uint64_t row = std::min((place - rows.offset) / rows.stride, rows.rows - 1);
  return row * rows.rowBytes + std::min(place - rows.offset - row * rows.stride, rows.rowBytes);
}

}  // namespace

RowRange rangeOf(const RowRead& rows, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t begin = bytesBefore(rows, offset);
  return {rows.inMemory + begin, bytesBefore(rows, offset + size) - begin};
}

void copyRows(const RowRead& rows, std::uint64_t offset, std::uint64_t size, const std::byte* file,
              std::byte* into) {
  const std::uint64_t begin = bytesBefore(rows, offset), end = bytesBefore(rows, offset + size);
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t row = at / rows.rowBytes, inRow = at % rows.rowBytes;
    const std::uint64_t part = std::min(end - at, rows.rowBytes - inRow);
    std::memcpy(into + (at - begin), file + (rows.offset + row * rows.stride + inRow - offset),
                part);
    at += part;
  }
}

}  // namespace hearth
