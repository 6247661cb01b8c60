#include "probe/system_tree.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace hearth {

namespace fs = std::filesystem;

std::optional<std::string> SystemTree::text(const std::string& path) const {
  constexpr std::size_t kLimit = 1 << 20;
  std::ifstream file(root_ + path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kLimit, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // sysfs answers some reads with an error (the speed of a link that is down).
  if (file.bad()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::optional<std::int64_t> SystemTree::number(const std::string& path) const {
  const std::optional<std::string> found = text(path);
  if (!found) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::vector<std::string> SystemTree::lines(const std::string& path) const {
  std::vector<std::string> lines;
  std::istringstream stream(text(path).value_or(""));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> SystemTree::names(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(root_ + path, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool SystemTree::exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root_ + path, error);
}

bool SystemTree::writable(const std::string& path) const {
  return ::access((root_ + path).c_str(), R_OK | W_OK) == 0;
}

std::optional<std::string> SystemTree::resolved(const std::string& path) const {
  std::error_code error;
  const fs::path found = fs::canonical(root_ + path, error);
  if (error) return std::nullopt;
  const fs::path base = root_.empty() ? fs::path("/") : fs::canonical(root_, error);
  return "/" + found.lexically_relative(base).string();
}

}  // namespace hearth
