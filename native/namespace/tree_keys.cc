#include <algorithm>
#include <functional>
#include <vector>

#include "namespace/tree.h"

namespace hearth::tree {

void Tree::visitKeys(const std::function<void(const KeyChange&)>& visit) const {
  if (volume_ != Volume{}) visit({Key::ofVolume(), volume_});
  for (const auto& [id, agent] : agents_) visit({Key::of(id), agent});
  for (const auto& [id, client] : clients_) visit({Key::of(id), Client{client.bound}});
  for (const auto& [id, client] : clients_) {
    for (const auto& [number, result] : client.results) {
      visit({Key::of(ChangeId{id, number}), result});
    }
  }
  std::vector<std::uint32_t> sorted;
  for (std::uint32_t number = 0; number < nodes_.end(); ++number) {
    if (nodes_[number].id != kNoInode) sorted.push_back(number);
  }
  std::ranges::sort(sorted, {}, [&](std::uint32_t number) { return nodes_[number].id; });
  const auto forEach = [&](const std::function<void(const Node&)>& each) {
    for (const std::uint32_t number : sorted) each(nodes_[number]);
  };
  forEach([&](const Node& node) { visit({Key::of(KeyKind::kInode, node.id), node.inode}); });
  forEach([&](const Node& node) {
    if (node.content() == nullptr) return;
    visit({Key::of(KeyKind::kContent, node.id), *node.content()});
  });
  forEach([&](const Node& node) {
    if (node.target() == nullptr) return;
    visit({Key::of(KeyKind::kTarget, node.id), Target{*node.target()}});
  });
  forEach([&](const Node& node) {
    if (node.folder() == nullptr) return;
    visitEntries(*node.folder(), 0, [&](const NamedEntry& entry) {
      visit({Key::ofEntry(node.id, entry.cookie), Entry{entry.inode, entry.name}});
      return true;
    });
  });
  for (const auto& [key, value] : xattrs_) {
    visit({Key::ofXattr(key.first, key.second), Xattr{value}});
  }
  for (const auto& [inode, session] : sessions_) {
    visit({Key::of(KeyKind::kSession, inode), session});
  }
  for (const auto& [id, garbage] : garbage_) visit({Key::of(id), garbage});
}

}  // namespace hearth::tree
