#include "manifest/entry_tree.h"

#include <algorithm>

#include "manifest/names.h"

namespace hearth {
namespace {

std::size_t slotOf(std::uint32_t parent, std::uint32_t name) {
  std::uint64_t mixed = (std::uint64_t{parent} << 32 | name) * 0x9e3779b97f4a7c15;
  mixed ^= mixed >> 32;
  return static_cast<std::size_t>(mixed * 0xff51afd7ed558ccd >> 20);
}

// The first eight bytes as a number that sorts like them: most comparisons end there.
std::uint64_t sortPrefix(std::string_view name) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    prefix = prefix << 8 | (i < name.size() ? static_cast<std::uint8_t>(name[i]) : 0);
  }
  return prefix;
}

}  // namespace

EntryTree::EntryTree() : table_(1024, kRoot) { nodes_.emplace_back(); }

std::optional<std::string> EntryTree::add(const ManifestRow& row) {
  NodeId parent = kRoot;
  std::optional<std::string> collision;
  std::string_view rest = row.path;
  for (std::size_t slash = rest.find('/'); slash != rest.npos; slash = rest.find('/')) {
    parent = child(parent, rest.substr(0, slash));
    Node& directory = nodes_[parent];
    if (directory.kind != EntryKind::kDirectory) {
      if (directory.state == State::kGiven) {
        const std::size_t end = row.path.size() - rest.size() + slash;
        collision = "'" + escaped(std::string_view(row.path).substr(0, end)) +
                    "' is a file or link and also a directory of other files";
      }
      // The directory wins: turn it, but remember that nothing was given for it.
      const Node plain{.parent = directory.parent, .name = directory.name};
      directory = plain;
    }
    rest.remove_prefix(slash + 1);
  }
  const std::size_t known = nodes_.size();
  const NodeId id = child(parent, rest);
  Node& node = nodes_[id];
  const bool isNew = nodes_.size() > known;
  const bool isDirectory = row.kind == EntryKind::kDirectory;
  if (isNew) {
    fill(node, row);
    return collision;
  }
  if (node.kind == EntryKind::kDirectory) {
    if (!isDirectory) return "it is a file or link and also a directory of other files";
    const bool twice = node.state == State::kGiven;
    node.modifiedNs = twice ? std::max(node.modifiedNs, row.modifiedNs) : row.modifiedNs;
    node.state = State::kGiven;
    return collision;
  }
  if (isDirectory) {
    const bool given = node.state == State::kGiven;
    const Node plain{.parent = node.parent, .name = node.name};
    node = plain;
    fill(node, row);
    if (given) return "it is a file or link and also a directory";
    return collision;
  }
  if (node.state == State::kGiven && equals(node, row)) {
    node.modifiedNs = std::max(node.modifiedNs, row.modifiedNs);
    return collision;
  }
  node.state = State::kRefused;
  return std::string(kTwoStates);
}

bool EntryTree::equals(const Node& node, const ManifestRow& row) {
  if (node.kind != row.kind) return false;
  const bool isFile = row.kind == EntryKind::kFile;
  if (node.text != strings_.intern(isFile ? row.validator : row.symlinkTarget)) return false;
  if (!isFile) return true;
  const bool sameDigest = row.sourceDigest
                              ? node.digest != 0 && digest(node.digest) == *row.sourceDigest
                              : node.digest == 0;
  return node.key == row.key.bytes && node.size == row.size &&
         node.objectOffset == row.objectOffset && node.executable == row.executable && sameDigest;
}

void EntryTree::fill(Node& node, const ManifestRow& row) {
  node.kind = row.kind;
  node.state = State::kGiven;
  node.modifiedNs = row.modifiedNs;
  switch (row.kind) {
    case EntryKind::kFile:
      node.key = row.key.bytes;
      node.size = row.size;
      node.objectOffset = row.objectOffset;
      node.executable = row.executable;
      node.text = strings_.intern(row.validator);
      if (row.sourceDigest) {
        digests_.push_back(*row.sourceDigest);
        node.digest = static_cast<std::uint32_t>(digests_.size());
      }
      break;
    case EntryKind::kSymlink:
      node.text = strings_.intern(row.symlinkTarget);
      break;
    case EntryKind::kDirectory:
      break;
  }
}

EntryTree::NodeId EntryTree::child(NodeId parent, std::string_view name) {
  if (nodes_.size() * 3 > table_.size() * 2) grow();
  const StringPool::Id nameId = strings_.intern(name);
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = slotOf(parent, nameId) & mask;
  for (; table_[slot] != kRoot; slot = (slot + 1) & mask) {
    const Node& node = nodes_[table_[slot]];
    if (node.parent == parent && node.name == nameId) return table_[slot];
  }
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.push_back({.parent = parent, .name = nameId});
  table_[slot] = id;
  return id;
}

void EntryTree::grow() {
  table_.assign(table_.size() * 2, kRoot);
  const std::size_t mask = table_.size() - 1;
  for (NodeId id = 1; id < nodes_.size(); ++id) {
    std::size_t slot = slotOf(nodes_[id].parent, nodes_[id].name) & mask;
    while (table_[slot] != kRoot) slot = (slot + 1) & mask;
    table_[slot] = id;
  }
}

EntryTree::Order EntryTree::breadthFirst() {
  const std::size_t count = nodes_.size();
  const auto kept = [this](NodeId id) { return nodes_[id].state != State::kRefused; };
  // Children grouped by parent (counting sort): those of p are grouped[begin[p] .. begin[p + 1]).
  std::vector<std::uint32_t> begin(count + 1, 0);
  for (NodeId id = 1; id < count; ++id) begin[nodes_[id].parent + 1] += kept(id) ? 1 : 0;
  for (std::size_t i = 1; i <= count; ++i) begin[i] += begin[i - 1];
  std::vector<NodeId> grouped(begin[count]);
  {
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (NodeId id = 1; id < count; ++id) {
      if (kept(id)) grouped[next[nodes_[id].parent]++] = id;
    }
  }
  Order order;
  order.nodes.reserve(grouped.size() + 1);
  order.childCounts.reserve(grouped.size() + 1);
  order.nodes.push_back(kRoot);
  struct Sortable {
    std::uint64_t prefix;
    NodeId id;
  };
  std::vector<Sortable> children;
  for (std::size_t position = 0; position < order.nodes.size(); ++position) {
    const NodeId parent = order.nodes[position];
    children.clear();
    for (std::uint32_t i = begin[parent]; i < begin[parent + 1]; ++i) {
      children.push_back({sortPrefix(strings_.text(nodes_[grouped[i]].name)), grouped[i]});
    }
    std::sort(children.begin(), children.end(), [this](const Sortable& a, const Sortable& b) {
      if (a.prefix != b.prefix) return a.prefix < b.prefix;
      return strings_.text(nodes_[a.id].name) < strings_.text(nodes_[b.id].name);
    });
    for (const Sortable& child : children) {
      nodes_[child.id].parent = static_cast<NodeId>(position);
      order.nodes.push_back(child.id);
    }
    order.childCounts.push_back(static_cast<std::uint32_t>(children.size()));
  }
  return order;
}

}  // namespace hearth
