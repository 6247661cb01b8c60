// Changes that make and remove names: create, mkdir, symlink, link, unlink, rmdir. The order of
// checks is that of Linux: do_mknodat, do_mkdirat, do_symlinkat, do_linkat, do_unlinkat and
// do_rmdir in fs/namei.c.
#include "namespace/execution.h"
#include "namespace/namespace.h"

namespace hearth::tree {
namespace {

constexpr std::uint16_t kSetGroup = 02000;

bool isFull(const Execution& x) {
  const std::uint64_t most = x.tree.volume().maxInodes;
  return most != 0 && x.tree.namedInodes() >= most;
}

// A new inode with a name. The folder's setgid bit passes its group on, as inode_init_owner does.
Answer makeNamed(Execution& x, const Place& place, Inode value) {
  const auto id = x.newId();
  if (!id || isFull(x)) return failed(ENOSPC);
  const InodeId inode{*id};
  const Inode& folder = x.tree.find(place.folder)->inode;
  value.mode &= 07777;
  if ((folder.mode & kSetGroup) != 0) {
    value.gid = folder.gid;
    if (value.kind == Kind::kFolder) value.mode |= kSetGroup;
  }
  value.accessedNs = value.modifiedNs = value.changedNs = x.nowNs;
  x.make(inode, value);
  x.put(Key::ofEntry(place.folder, x.newCookie()), Entry{inode, place.name});
  x.touch(place.folder);
  return {.created = true, .inode = inode};
}

Answer inTheWay(const Tree::NamedEntry& entry) { return {.error = EEXIST, .inode = entry.inode}; }

Answer openExisting(Execution& x, const Create& change, const Tree::Node& node) {
  if (node.isFolder()) return failed(EISDIR);
  // The kernel looked the name up as one of another kind; it looks again.
  if (node.inode.kind != Kind::kFile) return failed(ESTALE);
  if (!change.opens) return doneWith(node);
  return openSession(x, node, {.inode = node.id, .writes = false});
}

}  // namespace

Answer perform(Execution& x, const Create& change) {
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  const bool file = change.kind == Kind::kFile;
  if (const Tree::NamedEntry* const entry = x.entryAt(change.place)) {
    if (change.exclusive || !file) return inTheWay(*entry);
    return openExisting(x, change, *x.tree.find(entry->inode));
  }
  if (change.kind == Kind::kFolder || change.kind == Kind::kSymlink) return failed(EINVAL);
  Answer answer = makeNamed(
      x, change.place,
      {.kind = change.kind, .mode = change.mode, .uid = change.uid, .gid = change.gid, .links = 1});
  if (answer.error != 0 || !file || !change.opens) return answer;
  return grant(x, answer.inode, answer) ? answer : failed(ENOSPC);
}

Answer perform(Execution& x, const MakeFolder& change) {
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  if (const auto* const entry = x.entryAt(change.place)) return inTheWay(*entry);
  if (x.tree.find(change.place.folder)->inode.links >= x.options.maxFolderLinks) {
    return failed(EMLINK);
  }
  const Answer answer = makeNamed(x, change.place,
                                  {.kind = Kind::kFolder,
                                   .mode = change.mode,
                                   .uid = change.uid,
                                   .gid = change.gid,
                                   .links = 2});
  if (answer.error == 0) ++x.edit(change.place.folder).links;
  return answer;
}

Answer perform(Execution& x, const MakeSymlink& change) {
  if (change.target.empty()) return failed(ENOENT);
  if (change.target.size() > kMaxTargetBytes) return failed(ENAMETOOLONG);
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  if (const auto* const entry = x.entryAt(change.place)) return inTheWay(*entry);
  const Answer answer = makeNamed(
      x, change.place,
      {.kind = Kind::kSymlink, .mode = 0777, .uid = change.uid, .gid = change.gid, .links = 1});
  if (answer.error == 0) x.put(Key::of(KeyKind::kTarget, answer.inode), Target{change.target});
  return answer;
}

Answer perform(Execution& x, const Link& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  if (const auto* const entry = x.entryAt(change.place)) return inTheWay(*entry);
  if (node->isFolder()) return failed(EPERM);
  if (node->inode.links == 0) return failed(ENOENT);
  if (node->inode.links >= x.options.maxFileLinks) return failed(EMLINK);
  const Answer answer = publishNamed(x, *node, change.publish);
  if (answer.error != 0) return answer;
  Inode& value = x.edit(node->id);
  ++value.links;
  value.changedNs = x.nowNs;
  x.put(Key::ofEntry(change.place.folder, x.newCookie()), Entry{node->id, change.place.name});
  x.touch(change.place.folder);
  return answer;
}

Answer perform(Execution& x, const Unlink& change) {
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  const Tree::NamedEntry* const entry = x.entryAt(change.place);
  if (entry == nullptr) return failed(ENOENT);
  if (x.tree.find(entry->inode)->isFolder()) return failed(EISDIR);
  x.remove(Key::ofEntry(entry->folder, entry->cookie));
  x.dropLink(entry->inode);
  x.touch(entry->folder);
  return {.removed = entry->inode};
}

Answer perform(Execution& x, const RemoveFolder& change) {
  if (const std::int32_t error = x.placeError(change.place)) return failed(error);
  const Tree::NamedEntry* const entry = x.entryAt(change.place);
  if (entry == nullptr) return failed(ENOENT);
  const Tree::Node& node = *x.tree.find(entry->inode);
  if (!node.isFolder()) return failed(ENOTDIR);
  if (node.folder()->order.size() != 0) return failed(ENOTEMPTY);
  x.remove(Key::ofEntry(entry->folder, entry->cookie));
  x.dropLink(entry->inode);
  x.touch(entry->folder);
  --x.edit(entry->folder).links;
  return {.removed = entry->inode};
}

}  // namespace hearth::tree
