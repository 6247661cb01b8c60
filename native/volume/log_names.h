// Names of the files in a volume's log folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

inline constexpr std::string_view kSegmentPrefix = "log-";
inline constexpr std::string_view kCheckpointPrefix = "checkpoint-";
// Of a file that is being written, and means nothing yet.
inline constexpr std::string_view kAside = ".tmp";

// Numbers with leading zeros, so that names sort as they do.
[[nodiscard]] inline std::string numberedName(std::string_view prefix, std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(prefix) + std::string(20 - digits.size(), '0') + digits;
}
[[nodiscard]] inline std::string segmentName(std::uint64_t firstRecord) {
  return numberedName(kSegmentPrefix, firstRecord);
}
[[nodiscard]] inline std::string checkpointName(std::uint64_t lastRecord) {
  return numberedName(kCheckpointPrefix, lastRecord);
}

// None: not a name of that kind.
[[nodiscard]] inline std::optional<std::uint64_t> numberIn(const std::string& name,
                                                           std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() != prefix.size() + 20) return std::nullopt;
  std::uint64_t number = 0;
  for (const char digit : name.substr(prefix.size())) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return numberedName(prefix, number) == name ? std::optional(number) : std::nullopt;
}

}  // namespace hearth
