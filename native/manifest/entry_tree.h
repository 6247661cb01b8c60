// The rows of a manifest being built, as a tree: what has been added so far, found by (parent,
// name). Private to this room. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"
#include "manifest/string_pool.h"

namespace hearth {

class EntryTree {
 public:
  using NodeId = std::uint32_t;
  static constexpr NodeId kRoot = 0;

  // The meaning of a node. A refused one keeps its name taken, so that the order of rows does not
  // matter.
  enum class State : std::uint8_t { kImplicitDirectory, kGiven, kRefused };

  // Compact: a data set may have ten million of them.
  struct Node {
    std::array<std::uint8_t, 32> key{};
    std::uint64_t size = 0;
    std::uint64_t objectOffset = 0;
    std::int64_t modifiedNs = 0;
    NodeId parent = kRoot;
    StringPool::Id name = StringPool::kNone;
    StringPool::Id text = StringPool::kNone;
    std::uint32_t digest = 0;  // 1 + index in digests(); 0: none
    EntryKind kind = EntryKind::kDirectory;
    State state = State::kImplicitDirectory;
    bool executable = false;
  };
  static_assert(sizeof(Node) == 80);

  EntryTree();

  // Adds a row whose path and fields are usable by themselves. Why it, or the row that it collides
  // with, is refused; nothing when all is well, as for a row that is there already. kTwoStates: a
  // manifest without the entry would lack a file that the origin has.
  static constexpr std::string_view kTwoStates = "it is listed twice, in two states";
  [[nodiscard]] std::optional<std::string> add(const ManifestRow& row);

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] Node& node(NodeId id) { return nodes_[id]; }
  [[nodiscard]] const Sha256Digest& digest(std::uint32_t number) const {
    return digests_[number - 1];
  }
  [[nodiscard]] StringPool& strings() { return strings_; }

  // All kept nodes breadth first: the children of a node together, sorted by name bytes, in the
  // order of their parents. `childCounts[i]` belongs to `nodes[i]`. Sets every node's parent to its
  // position there.
  struct Order {
    std::vector<NodeId> nodes;
    std::vector<std::uint32_t> childCounts;
  };
  [[nodiscard]] Order breadthFirst();

 private:
  NodeId child(NodeId parent, std::string_view name);
  void grow();
  void fill(Node& node, const ManifestRow& row);
  // But for the time of modification.
  [[nodiscard]] bool equals(const Node& node, const ManifestRow& row);

  StringPool strings_;
  std::deque<Node> nodes_;
  std::deque<Sha256Digest> digests_;
  std::vector<NodeId> table_;  // by (parent, name); kRoot marks a free slot
};

}  // namespace hearth
