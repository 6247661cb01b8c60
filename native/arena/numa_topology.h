// The NUMA nodes of this machine, and from which of them the pages of a file of memory come. Any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth {

class NumaTopology {
 public:
  virtual ~NumaTopology() = default;
  // Nodes with memory that this process may use, ascending; at least one.
  [[nodiscard]] virtual std::vector<int> nodes() const = 0;
  // Pages of [offset, offset + bytes) of a file of memfd_create(2) come from `node` from now on,
  // whichever thread touches them, as long as the node has some; else from others. On pages of the
  // file's.
  [[nodiscard]] virtual Status prefer(int file, std::uint64_t offset, std::uint64_t bytes,
                                      int node) const = 0;
};

class KernelNumaTopology final : public NumaTopology {
 public:
  // `root` is put before /sys and /proc: tests bring a tree of their own.
  explicit KernelNumaTopology(std::string root = {}) : root_(std::move(root)) {}
  [[nodiscard]] std::vector<int> nodes() const override;
  [[nodiscard]] Status prefer(int file, std::uint64_t offset, std::uint64_t bytes,
                              int node) const override;

 private:
  const std::string root_;
};

// "0-2,8" (cpuset(7), list format): 0, 1, 2, 8. Empty when it is not such a list, or names a node
// above 1023. Pure.
[[nodiscard]] std::vector<int> parseNodeList(std::string_view text);

}  // namespace hearth
