#include "holder/mount_info.h"

#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

namespace hearth {
namespace {

// Blank, tab, newline and backslash are written as three octal digits after a backslash.
std::string unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr ==
            text.data() + i + 4) {
      plain.push_back(static_cast<char>(value));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

bool parseDevice(std::string_view text, MountInfoRow& row) {
  const char* const end = text.data() + text.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the end is given too.
  const auto first = std::from_chars(text.data(), end, row.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return false;
  const auto second = std::from_chars(first.ptr + 1, end, row.minor);
  return second.ec == std::errc() && second.ptr == end;
}

}  // namespace

std::optional<MountInfoRow> parseMountInfoLine(std::string_view line) {
  // id parent major:minor root target options [optional...] - type source super-options
  std::istringstream words{std::string(line)};
  std::string id, parent, device, root, target, word;
  MountInfoRow row;
  if (!(words >> id >> parent >> device >> root >> target)) return std::nullopt;
  if (!parseDevice(device, row)) return std::nullopt;
  while (words >> word && word != "-") {
  }
  std::string source;
  if (word != "-" || !(words >> row.type >> source)) return std::nullopt;
  row.target = unescape(target);
  row.source = unescape(source);
  return row;
}

Result<std::vector<MountInfoRow>> readMountInfo() {
  std::ifstream file("/proc/self/mountinfo");
  if (!file) return errnoError(errno, "open /proc/self/mountinfo");
  std::vector<MountInfoRow> rows;
  for (std::string line; std::getline(file, line);) {
    if (auto row = parseMountInfoLine(line)) rows.push_back(std::move(*row));
  }
  return rows;
}

Result<std::optional<MountInfoRow>> findMount(std::string_view target) {
  auto rows = readMountInfo();
  if (!rows) return rows.error();
  std::optional<MountInfoRow> found;
  for (MountInfoRow& row : *rows) {
    if (row.target == target) found = std::move(row);
  }
  return found;
}

}  // namespace hearth
