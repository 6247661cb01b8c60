// Changes of attributes, the extended ones included.
#include "namespace/execution.h"

namespace hearth::tree {
namespace {

// None: the size is the namespace's, and changes now or is right.
std::optional<Answer> resize(Execution& x, const Tree::Node& node, std::uint64_t size) {
  if (node.isFolder()) return failed(EISDIR);
  if (node.inode.kind != Kind::kFile) return failed(EINVAL);
  if (const Session* const session = x.tree.session(node.id)) {
    if (session->holder.agent == x.client.agent) return failed(EINVAL, Refusal::kNeedsSession);
    return busy(*session, Refusal::kHeld);
  }
  if (size != 0 && size != node.size()) return failed(EINVAL, Refusal::kNeedsSession);
  if (size == 0 && node.content() != nullptr) dropContent(x, node, kNoSession);
  return std::nullopt;
}

std::size_t xattrBytes(const Tree& tree, InodeId inode, const std::string& without) {
  std::size_t bytes = 0;
  tree.visitXattrs(inode, [&](const std::string& name, const std::string& value) {
    if (name != without) bytes += name.size() + value.size() + kXattrOverhead;
  });
  return bytes;
}

std::int32_t xattrError(const Execution& x, const SetXattr& change) {
  if (x.tree.find(change.inode) == nullptr) return ESTALE;
  if (change.name.empty() || change.name.size() > kMaxNameBytes) return ERANGE;
  if (change.value.size() > kMaxXattrBytes) return E2BIG;
  const bool there = x.tree.xattr(change.inode, change.name) != nullptr;
  if (there && change.mode == XattrMode::kCreate) return EEXIST;
  if (!there && change.mode == XattrMode::kReplace) return ENODATA;
  const std::size_t bytes = xattrBytes(x.tree, change.inode, change.name) + change.name.size() +
                            change.value.size() + kXattrOverhead;
  return bytes > kMaxXattrBytes ? ENOSPC : 0;
}

}  // namespace

Answer perform(Execution& x, const SetAttributes& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  Answer answer = doneWith(*node);
  Inode& value = x.edit(node->id);
  if (change.size) {
    if (auto refused = resize(x, *node, *change.size)) return *refused;
    if (*change.size == 0) answer.content = {};
    value.modifiedNs = x.nowNs;
  }
  if (change.mode) value.mode = *change.mode & 07777;
  if (change.uid) value.uid = *change.uid;
  if (change.gid) value.gid = *change.gid;
  if (change.accessedNs) value.accessedNs = *change.accessedNs;
  if (change.modifiedNs) value.modifiedNs = *change.modifiedNs;
  value.changedNs = x.nowNs;
  return answer;
}

Answer perform(Execution& x, const SetXattr& change) {
  if (const std::int32_t error = xattrError(x, change)) return failed(error);
  x.put(Key::ofXattr(change.inode, change.name), Xattr{change.value});
  x.edit(change.inode).changedNs = x.nowNs;
  return doneWith(*x.tree.find(change.inode));
}

Answer perform(Execution& x, const RemoveXattr& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  if (change.name.empty() || change.name.size() > kMaxNameBytes) return failed(ERANGE);
  if (x.tree.xattr(change.inode, change.name) == nullptr) return failed(ENODATA);
  x.remove(Key::ofXattr(change.inode, change.name));
  x.edit(change.inode).changedNs = x.nowNs;
  return doneWith(*node);
}

}  // namespace hearth::tree
