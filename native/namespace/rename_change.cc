// rename(2) with the flags of renameat2(2). The order of checks is that of do_renameat2 and
// vfs_rename in fs/namei.c of Linux.
#include "namespace/execution.h"
#include "namespace/namespace.h"

namespace hearth::tree {
namespace {

struct Move {
  const Tree::NamedEntry& source;
  const Tree::Node& moved;
  const Tree::NamedEntry* target = nullptr;
  const Tree::Node* other = nullptr;  // what `target` names
};

bool isFolder(const Tree::Node* node) { return node != nullptr && node->isFolder(); }

std::int32_t moveError(const Execution& x, const Rename& change, const Move& move) {
  const bool exchange = change.mode == RenameMode::kExchange;
  const InodeId from = change.from.folder, to = change.to.folder;
  if (move.target != nullptr && change.mode == RenameMode::kNoReplace) return EEXIST;
  if (move.target == nullptr && exchange) return ENOENT;
  if (move.moved.isFolder() && x.isAtOrAbove(move.moved.id, to)) return EINVAL;
  if (isFolder(move.other) && x.isAtOrAbove(move.other->id, from)) {
    return exchange ? EINVAL : ENOTEMPTY;
  }
  if (move.other == &move.moved) return 0;
  if (move.other != nullptr && !exchange && move.moved.isFolder() != move.other->isFolder()) {
    return move.moved.isFolder() ? ENOTDIR : EISDIR;
  }
  if (from != to) {
    const auto full = [&](InodeId folder) {
      return x.tree.find(folder)->inode.links >= x.options.maxFolderLinks;
    };
    if (move.moved.isFolder() && !isFolder(move.other) && full(to)) return EMLINK;
    if (exchange && isFolder(move.other) && !move.moved.isFolder() && full(from)) return EMLINK;
  }
  const bool replaced = isFolder(move.other) && !exchange;
  return replaced && move.other->folder()->order.size() != 0 ? ENOTEMPTY : 0;
}

void exchangeNames(Execution& x, const Move& move) {
  const Tree::NamedEntry& a = move.source;
  const Tree::NamedEntry& b = *move.target;
  x.put(Key::ofEntry(a.folder, a.cookie), Entry{b.inode, a.name});
  x.put(Key::ofEntry(b.folder, b.cookie), Entry{a.inode, b.name});
  x.edit(a.inode).changedNs = x.nowNs;
  x.edit(b.inode).changedNs = x.nowNs;
  if (a.folder == b.folder || move.moved.isFolder() == move.other->isFolder()) return;
  --x.edit(move.moved.isFolder() ? a.folder : b.folder).links;
  ++x.edit(move.moved.isFolder() ? b.folder : a.folder).links;
}

// A name that is replaced keeps its cookie: a reader of the folder meets it once.
void moveName(Execution& x, const Rename& change, const Move& move) {
  const std::uint64_t cookie = move.target != nullptr ? move.target->cookie : x.newCookie();
  x.remove(Key::ofEntry(move.source.folder, move.source.cookie));
  x.put(Key::ofEntry(change.to.folder, cookie), Entry{move.moved.id, change.to.name});
  x.edit(move.moved.id).changedNs = x.nowNs;
  if (move.other != nullptr) x.dropLink(move.other->id);
  if (!move.moved.isFolder()) return;
  if (change.from.folder != change.to.folder) {
    --x.edit(change.from.folder).links;
    ++x.edit(change.to.folder).links;
  }
  if (isFolder(move.other)) --x.edit(change.to.folder).links;
}

}  // namespace

Answer perform(Execution& x, const Rename& change) {
  if (const std::int32_t error = x.folderError(change.from.folder)) return failed(error);
  if (const std::int32_t error = x.folderError(change.to.folder)) return failed(error);
  if (const std::int32_t error = x.placeError(change.from)) return failed(error);
  const Tree::NamedEntry* const source = x.entryAt(change.from);
  if (source == nullptr) return failed(ENOENT);
  if (const std::int32_t error = x.placeError(change.to)) return failed(error);
  Move move{*source, *x.tree.find(source->inode)};
  move.target = x.entryAt(change.to);
  if (move.target != nullptr) move.other = x.tree.find(move.target->inode);
  if (const std::int32_t error = moveError(x, change, move)) {
    Answer answer = failed(error);
    if (error == EEXIST) answer.inode = move.other->id;
    return answer;
  }
  const bool exchange = change.mode == RenameMode::kExchange;
  Answer answer = publishNamed(x, move.moved, change.publish);
  if (answer.error != 0) return answer;
  // Two names of one file: nothing moves (POSIX).
  if (move.other == &move.moved) return answer;
  if (exchange) {
    const Answer other = publishNamed(x, *move.other, std::nullopt);
    if (other.error != 0) return other;
    exchangeNames(x, move);
  } else {
    if (move.other != nullptr) answer.removed = move.other->id;
    moveName(x, change, move);
  }
  x.touch(change.from.folder);
  x.touch(change.to.folder);
  return answer;
}

}  // namespace hearth::tree
