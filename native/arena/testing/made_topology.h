// NUMA nodes that a test makes up; remembers what was to come from which.
#pragma once

#include <utility>
#include <vector>

#include "arena/numa_topology.h"

namespace hearth::testing_arena {

class MadeTopology final : public NumaTopology {
 public:
  struct Preference {
    std::uint64_t offset, bytes;
    int node;
    bool operator==(const Preference&) const = default;
  };

  explicit MadeTopology(std::vector<int> nodes) : nodes_(std::move(nodes)) {}
  [[nodiscard]] std::vector<int> nodes() const override { return nodes_; }
  [[nodiscard]] Status prefer(int, std::uint64_t offset, std::uint64_t bytes,
                              int node) const override {
    preferences.push_back({offset, bytes, node});
    return refusal;
  }

  Status refusal;
  mutable std::vector<Preference> preferences;

 private:
  const std::vector<int> nodes_;
};

}  // namespace hearth::testing_arena
