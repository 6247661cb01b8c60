// The draws of a schedule of faults: the number of faults, and the layout of memory. For tests that
// run many schedules from a seed.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "transport/testing/faulty_rail.h"

namespace hearth::testing_rails {

inline Faults someFaults(std::mt19937_64& random) {
  const auto upTo = [&random](unsigned most) {
    return static_cast<unsigned>(random() % (most + 1));
  };
  return {.refused = upTo(10),
          .failed = upTo(20),
          .corrupt = upTo(10),
          .dropped = upTo(10),
          .stalled = upTo(20),
          .ended = upTo(10),
          .latestTurn = upTo(12),
          .paused = upTo(60)};
}

// `memory` in up to four pieces, which are regions of their own.
inline MemoryVector piecesOf(const std::shared_ptr<std::vector<std::byte>>& memory,
                             std::mt19937_64& random) {
  std::vector<MemorySlice> slices;
  std::span<std::byte> rest = *memory;
  for (std::uint64_t cuts = random() % 4; cuts > 0; --cuts) {
    const std::size_t size = random() % (rest.size() + 1);
    slices.push_back(MemorySlice::of(rest.first(size), memory));
    rest = rest.subspan(size);
  }
  slices.push_back(MemorySlice::of(rest, memory));
  return MemoryVector(std::move(slices));
}

}  // namespace hearth::testing_rails
