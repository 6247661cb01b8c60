// Reads of /proc and /sys. With a prefix, tests bring a tree of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

class SystemTree {
 public:
  // `root` is put before every path: empty for the real system.
  explicit SystemTree(std::string root) : root_(std::move(root)) {}

  // The file's text without trailing white space; nothing when it cannot be read. At most 1 MiB.
  [[nodiscard]] std::optional<std::string> text(const std::string& path) const;
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& path) const;
  [[nodiscard]] std::vector<std::string> lines(const std::string& path) const;
  // Names in a directory, sorted, without "." and ".."; empty when it cannot be read.
  [[nodiscard]] std::vector<std::string> names(const std::string& path) const;
  [[nodiscard]] bool exists(const std::string& path) const;
  // This process may read and write the file.
  [[nodiscard]] bool writable(const std::string& path) const;
  // With every symbolic link resolved; nothing when it does not exist. Keeps the prefix off.
  [[nodiscard]] std::optional<std::string> resolved(const std::string& path) const;

 private:
  std::string root_;
};

}  // namespace hearth
