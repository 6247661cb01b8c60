#include "namespace/execution.h"

#include <algorithm>
#include <iterator>

#include "namespace/namespace.h"

namespace hearth::tree {

std::int32_t Execution::folderError(InodeId folder) const {
  const Tree::Node* const node = tree.find(folder);
  if (node == nullptr) return ESTALE;
  return node->isFolder() ? 0 : ENOTDIR;
}

std::int32_t Execution::placeError(const Place& place) const {
  if (const std::int32_t error = folderError(place.folder)) return error;
  if (tree.find(place.folder)->inode.links == 0) return ENOENT;
  if (place.name.size() > kMaxNameBytes) return ENAMETOOLONG;
  return isName(place.name) ? 0 : EINVAL;
}

bool Execution::isAtOrAbove(InodeId inode, InodeId folder) const {
  // No more steps than inodes: a damaged tree may have a circle.
  for (std::uint64_t steps = 0; steps <= tree.inodes(); ++steps) {
    if (folder == inode) return true;
    const Tree::Node* const node = tree.find(folder);
    if (node == nullptr || !node->isFolder() || folder == kRootInode) return false;
    folder = node->folder()->parent;
  }
  return true;
}

std::optional<std::uint64_t> Execution::newId() {
  if (counter_ == kMaxCounter) return std::nullopt;
  return idOf(tree.volume().epoch, ++counter_);
}

std::uint64_t Execution::newCookie() const { return number + kFirstCookie - 1; }

Inode& Execution::edit(InodeId inode) {
  const auto known = std::ranges::find(edited_, inode, &std::pair<InodeId, Inode>::first);
  if (known != edited_.end()) return known->second;
  return edited_.emplace_back(inode, tree.find(inode)->inode).second;
}

void Execution::touch(InodeId folder) {
  Inode& value = edit(folder);
  value.modifiedNs = nowNs;
  value.changedNs = nowNs;
}

void Execution::dropLink(InodeId inode) {
  const Tree::Node& node = *tree.find(inode);
  const bool kept = node.isFolder() || node.inode.kind == Kind::kFile;
  if (!kept && node.inode.links <= 1) return removeInode(inode);
  Inode& value = edit(inode);
  value.links = node.isFolder() ? 0 : std::max(value.links, 1u) - 1;
  value.changedNs = nowNs;
}

void Execution::removeInode(InodeId inode) {
  std::erase_if(edited_, [&](const auto& edited) { return edited.first == inode; });
  if (tree.find(inode)->target() != nullptr) {
    last_.push_back({Key::of(KeyKind::kTarget, inode), {}});
  }
  tree.visitXattrs(inode, [&](const std::string& name, const std::string&) {
    last_.push_back({Key::ofXattr(inode, name), {}});
  });
  last_.push_back({Key::of(KeyKind::kInode, inode), {}});
}

void Execution::addGarbage(Garbage garbage) {
  if (!garbage.runs.empty()) put(Key::of(GarbageId{number, garbage_++}), std::move(garbage));
}

std::vector<KeyChange> Execution::take() {
  std::vector<KeyChange> all;
  for (auto& [inode, value] : edited_) {
    value.version = number;
    all.push_back({Key::of(KeyKind::kInode, inode), value});
  }
  std::ranges::move(changes_, std::back_inserter(all));
  std::ranges::move(last_, std::back_inserter(all));
  edited_.clear();
  changes_.clear();
  last_.clear();
  return all;
}

}  // namespace hearth::tree
