// One change on its way to a record. It reads the tree as it was before, and collects what to put
// and delete; nothing of it counts when the change fails. One thread at a time.
#pragma once

#include <cerrno>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "namespace/change.h"
#include "namespace/runs.h"
#include "namespace/tree.h"

namespace hearth::tree {

struct NamespaceOptions;

class Execution {
 public:
  // `number`: of the record. `lastCounter`: of the ids given before in this epoch. Tree and options
  // outlive it.
  Execution(const Tree& tree, const NamespaceOptions& options, std::uint64_t number,
            std::uint64_t lastCounter, std::int64_t nowNs, ClientId client)
      : tree(tree),
        options(options),
        number(number),
        nowNs(nowNs),
        client(client),
        counter_(lastCounter) {}

  const Tree& tree;
  const NamespaceOptions& options;
  const std::uint64_t number;
  const std::int64_t nowNs;
  const ClientId client;  // that asked; nobody for a leader's change

  // ESTALE: unknown, ENOTDIR.
  [[nodiscard]] std::int32_t folderError(InodeId folder) const;
  // ESTALE, ENOTDIR, ENOENT (the folder was removed), ENAMETOOLONG, EINVAL.
  [[nodiscard]] std::int32_t placeError(const Place& place) const;
  [[nodiscard]] const Tree::NamedEntry* entryAt(const Place& place) const {
    return tree.find(place.folder, place.name);
  }
  // `inode` is `folder` or one of those above it.
  [[nodiscard]] bool isAtOrAbove(InodeId inode, InodeId folder) const;

  // A new id of this epoch; none when they are used up.
  [[nodiscard]] std::optional<std::uint64_t> newId();
  // For an entry that this record makes: at most one in each folder.
  [[nodiscard]] std::uint64_t newCookie() const;

  // The inode's value, to be changed and put. Valid as long as this.
  [[nodiscard]] Inode& edit(InodeId inode);
  void make(InodeId inode, const Inode& value) { edited_.emplace_back(inode, value); }
  void put(Key key, Value value) { changes_.push_back({std::move(key), std::move(value)}); }
  void remove(Key key) { changes_.push_back({std::move(key), {}}); }
  // An entry of the folder changed.
  void touch(InodeId folder);
  // The inode loses a name, or a folder its only one. It stays as an orphan if a process may have
  // it open: a file or a folder.
  void dropLink(InodeId inode);
  // With its target and attributes, after all other changes.
  void removeInode(InodeId inode);
  void addGarbage(Garbage garbage);

  // All changes so far, in the order in which a tree takes them. Nothing of them afterwards.
  [[nodiscard]] std::vector<KeyChange> take();
  [[nodiscard]] std::uint64_t lastCounter() const { return counter_; }

 private:
  std::uint64_t counter_;
  std::uint32_t garbage_ = 0;
  std::deque<std::pair<InodeId, Inode>> edited_;
  std::vector<KeyChange> changes_;
  std::vector<KeyChange> last_;
};

[[nodiscard]] inline Answer failed(std::int32_t error, Refusal refusal = Refusal::kNone) {
  return {.error = error, .refusal = refusal};
}
// EBUSY, because this client has the file's session.
[[nodiscard]] inline Answer busy(const Session& session, Refusal refusal) {
  return {.error = EBUSY, .refusal = refusal, .holder = session.holder};
}
[[nodiscard]] inline Answer doneWith(const Tree::Node& node) {
  return {.inode = node.id, .content = node.version()};
}

// Each change checks, then collects its puts and deletes in `x`; an answer with an error makes them
// count for nothing.
[[nodiscard]] Answer perform(Execution& x, const Create& change);
[[nodiscard]] Answer perform(Execution& x, const MakeFolder& change);
[[nodiscard]] Answer perform(Execution& x, const MakeSymlink& change);
[[nodiscard]] Answer perform(Execution& x, const Unlink& change);
[[nodiscard]] Answer perform(Execution& x, const RemoveFolder& change);
[[nodiscard]] Answer perform(Execution& x, const Link& change);
[[nodiscard]] Answer perform(Execution& x, const Rename& change);
[[nodiscard]] Answer perform(Execution& x, const SetAttributes& change);
[[nodiscard]] Answer perform(Execution& x, const SetXattr& change);
[[nodiscard]] Answer perform(Execution& x, const RemoveXattr& change);
[[nodiscard]] Answer perform(Execution& x, const OpenForWriting& change);
[[nodiscard]] Answer perform(Execution& x, const Publish& change);
[[nodiscard]] Answer perform(Execution& x, const EndSession& change);
[[nodiscard]] Answer perform(Execution& x, const Join& change);
[[nodiscard]] Answer perform(Execution& x, const Retire& change);
[[nodiscard]] Answer perform(Execution& x, const Forget& change);
[[nodiscard]] Answer perform(Execution& x, const Evict& change);
[[nodiscard]] Answer perform(Execution& x, const Collected& change);
[[nodiscard]] Answer perform(Execution& x, const SetLimits& change);

// The session of a file that exists, or an error (R1).
[[nodiscard]] Answer openSession(Execution& x, const Tree::Node& file, const OpenForWriting& ask);
// A new session for a file that has none, or whose session ends now. ENOSPC: no ids are left.
[[nodiscard]] bool grant(Execution& x, InodeId file, Answer& answer);
// The session ends; `named` is the content then, or null. `used`: see Publish::usedChunks.
void endSession(Execution& x, InodeId file, const Session& session, std::uint32_t used,
                const Content* named);
// The content goes, and its chunks are garbage, but for those of `except`.
void dropContent(Execution& x, const Tree::Node& file, SessionId except);
// Publishes a file that gets a name (R4), or says why not; the answer is the file's.
[[nodiscard]] Answer publishNamed(Execution& x, const Tree::Node& node,
                                  const std::optional<Publish>& publish);

}  // namespace hearth::tree
