#include <cerrno>

#include "namespace/namespace.h"

namespace hearth::tree {

Found Namespace::lookUp(InodeId folder, std::string_view name) const {
  // Most names that are asked for are absent; then this is one probe of each of two tables.
  if (const Tree::NamedEntry* const entry = tree_.find(folder, name)) return {0, entry->inode};
  const Tree::Node* const node = tree_.find(folder);
  if (node == nullptr) return {.error = ESTALE};
  if (!node->isFolder()) return {.error = ENOTDIR};
  return {.error = name.size() > kMaxNameBytes ? ENAMETOOLONG : ENOENT};
}

std::int32_t Namespace::check(const Place& place, InodeId inode) const {
  const Tree::NamedEntry* const entry = tree_.find(place.folder, place.name);
  return entry != nullptr && entry->inode == inode ? 0 : ESTALE;
}

std::optional<Attributes> Namespace::attributes(InodeId inode) const {
  const Tree::Node* const node = tree_.find(inode);
  if (node == nullptr) return std::nullopt;
  return Attributes{node->id, node->inode, node->size(), node->version()};
}

const Content* Namespace::content(InodeId inode) const {
  const Tree::Node* const node = tree_.find(inode);
  return node == nullptr ? nullptr : node->content();
}

const std::string* Namespace::target(InodeId inode) const {
  const Tree::Node* const node = tree_.find(inode);
  return node == nullptr ? nullptr : node->target();
}

InodeId Namespace::parentOf(InodeId folder) const {
  const Tree::Node* const node = tree_.find(folder);
  return node == nullptr || !node->isFolder() ? kNoInode : node->folder()->parent;
}

Listing Namespace::list(InodeId folder, std::uint64_t after, std::size_t most) const {
  Listing listing;
  const Tree::Node* const node = tree_.find(folder);
  if (node == nullptr || !node->isFolder()) {
    listing.error = node == nullptr ? ESTALE : ENOTDIR;
    return listing;
  }
  tree_.visitEntries(*node->folder(), after, [&](const Tree::NamedEntry& entry) {
    listing.more = listing.items.size() == most;
    if (listing.more) return false;
    const Kind kind = tree_.find(entry.inode)->inode.kind;
    listing.items.push_back({entry.name, entry.inode, kind, entry.cookie});
    return true;
  });
  return listing;
}

const std::string* Namespace::xattr(InodeId inode, const std::string& name) const {
  return tree_.xattr(inode, name);
}

std::vector<std::string> Namespace::xattrs(InodeId inode) const {
  std::vector<std::string> names;
  tree_.visitXattrs(inode,
                    [&](const std::string& name, const std::string&) { names.push_back(name); });
  return names;
}

Usage Namespace::usage() const {
  const Volume& volume = tree_.volume();
  return {tree_.bytes(), tree_.inodes(), volume.maxBytes, volume.maxInodes};
}

Naming Namespace::naming(InodeId inode, SessionId session, std::uint32_t chunk) const {
  if (const Session* const held = tree_.session(inode); held != nullptr && held->id == session) {
    return Naming::kNamed;
  }
  const Content* const named = content(inode);
  if (named == nullptr) return Naming::kUnnamed;
  for (const ChunkRun& run : named->runs) {
    if (run.session == session && chunk >= run.first && chunk - run.first < run.count) {
      return Naming::kNamed;
    }
  }
  return named->listed ? Naming::kListed : Naming::kUnnamed;
}

}  // namespace hearth::tree
