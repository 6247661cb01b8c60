// Arguments and output of the programs of `make bench`. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/processor_time.h"

namespace hearth::bench {

// A program's, without its name.
inline std::vector<std::string> wordsOf(int argc, char** argv) { return {argv + 1, argv + argc}; }

// Of numbers that are not none: `part` of them are less. 0.5 is the median.
inline double quantile(std::vector<double> numbers, double part) {
  std::ranges::sort(numbers);
  const auto at = static_cast<std::size_t>(part * static_cast<double>(numbers.size()));
  return numbers[std::min(at, numbers.size() - 1)];
}

// Pseudo-random, so that neither link nor disk can make them fewer.
inline void fillRandom(std::span<std::byte> bytes) {
  std::mt19937_64 random(1);
  const std::size_t words = bytes.size() / sizeof(std::uint64_t);
  auto* const at = reinterpret_cast<std::uint64_t*>(bytes.data());
  for (std::size_t i = 0; i < words; ++i) at[i] = random();
}

}  // namespace hearth::bench
