// Divides reads between the ranks of a node that want parts of the same files: a rank reads a part
// that it alone wants, and that lies in one piece, to its place; the ranks read all else once, into
// windows of memory that all of them see, from which each takes its own. Pure, any thread; equal
// for all ranks that are given the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "loader/load_plan.h"

namespace hearth {

// Rows of a file that a rank wants. Ranks exchange these through shared memory.
struct WantedRows {
  std::uint64_t file = 0;  // the index in the plan of all files
  RowRead rows;
};

struct FileRange {
  std::uint64_t file = 0;
  std::uint64_t offset = 0;  // a multiple of kDirectReadAlignment
  std::uint64_t size = 0;    // the same, except at the end of a file
};

struct SliceSchedule {
  std::vector<FileRange> shared;  // by file and offset, without overlaps
  std::vector<WantedRows> own;    // of this rank, to be read by it alone
  std::vector<WantedRows> taken;  // of this rank, from windows; by file and offset
};

// `wanted`: of each rank. `fileBytes`: of each file. Without `readsOwn` everything is shared.
[[nodiscard]] SliceSchedule scheduleSlices(std::span<const std::vector<WantedRows>> wanted,
                                           std::span<const std::uint64_t> fileBytes, unsigned rank,
                                           bool readsOwn);

struct WindowPart {
  FileRange range;
  std::uint64_t inWindow = 0;  // a multiple of kDirectReadAlignment
};
using SliceWindow = std::vector<WindowPart>;

// The ranges in their order, in windows of at most `windowBytes`, a multiple of
// kDirectReadAlignment.
[[nodiscard]] std::vector<SliceWindow> windowsOf(std::span<const FileRange> shared,
                                                 std::uint64_t windowBytes);

// The part of a window that `rank` reads: one rank reads each byte, and each about as many.
[[nodiscard]] SliceWindow shareOf(const SliceWindow& window, unsigned rank, unsigned ranks);

}  // namespace hearth
