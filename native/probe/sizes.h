// Byte counts for people.
#pragma once

#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>

namespace hearth {

// "1.5 GiB", "512 MiB", "12 B".
[[nodiscard]] inline std::string bytesForPeople(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  std::string number = text;
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number + " " + kUnits[unit];
}

}  // namespace hearth
