// The tree of one volume as its leader executes it: a change in, an answer and a log record out.
// Pure: no I/O, no clock, no threads, no randomness. The same calls give the same records
// everywhere.
//
// A change is answered to its client when its record is durable, and a repeated change when the
// first one's is (Outcome::record says which one to wait for). A follower, or the next leader,
// applies the records in order, and has exactly the same tree. docs/design/namespace.md explains
// the rules.
//
// A query sees what was executed, durable or not: a leader answers it when lastRecord() is durable.
//
// One thread at a time. A pointer that a query returns is valid until the next change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "namespace/change.h"
#include "namespace/checkpoint.h"
#include "namespace/record.h"
#include "namespace/tree.h"

namespace hearth::tree {

struct NamespaceOptions {
  WideId store{};
  WideId volume{};
  // Of the root, when the volume is made.
  std::uint16_t rootMode = 0755;
  std::uint32_t rootUid = 0;
  std::uint32_t rootGid = 0;
  // Names of one file, as on ext4, and links of a folder with subfolders: programs read st_nlink as
  // 31 bits.
  std::uint32_t maxFileLinks = 65'000;
  std::uint32_t maxFolderLinks = 0x7fffffff;
};

// The fields of stat(2) that a volume has; `inode.version` grows with each change of them.
struct Attributes {
  InodeId id = kNoInode;
  Inode inode;
  std::uint64_t size = 0;
  ContentVersion content;
};

struct Found {
  std::int32_t error = 0;  // ESTALE, ENOTDIR, ENAMETOOLONG, ENOENT
  InodeId inode = kNoInode;
};

struct Listing {
  struct Item {
    std::string_view name;
    InodeId inode = kNoInode;
    Kind kind = Kind::kFile;
    std::uint64_t cookie = 0;  // list() goes on behind it
  };
  std::int32_t error = 0;  // ESTALE, ENOTDIR
  bool more = false;
  std::vector<Item> items;
};
// Cookies 1 and 2 are left for "." and "..", which no volume lists.
inline constexpr std::uint64_t kFirstCookie = 3;

struct Usage {
  std::uint64_t bytes = 0;   // of contents, also of orphans
  std::uint64_t inodes = 0;  // also orphans, and the root
  std::uint64_t maxBytes = 0;
  std::uint64_t maxInodes = 0;
};

enum class Naming : std::uint8_t {
  kNamed,    // a content names the chunk, or its session goes on
  kUnnamed,  // it may go
  kListed,   // the list of Content::runs says so
};

class Namespace {
 public:
  explicit Namespace(NamespaceOptions options) : options_(options) {}

  // --- from a checkpoint and a log ---

  // One key of a checkpoint, in order; before any apply(). kCorrupt, kUnsupported.
  [[nodiscard]] Status load(const CheckpointItem& item);
  // All keys of the checkpoint were loaded.
  [[nodiscard]] Status loaded(const CheckpointHead& head);
  // The record after lastRecord(). kInvalidArgument: another one; kCorrupt: it contradicts the
  // tree, which is of no use any more. Ends this leader's term.
  [[nodiscard]] Status apply(const Record& record);
  // Of the last record that the tree has; 0: it is empty.
  [[nodiscard]] std::uint64_t lastRecord() const { return lastRecord_; }
  [[nodiscard]] std::uint64_t epoch() const { return tree_.volume().epoch; }

  // --- leading ---

  struct Outcome {
    Answer answer;
    // The number of the record that executed the change; 0: it was not executed (Refusal below 16).
    std::uint64_t record = 0;
    bool repeated = false;  // the answer of an earlier request
    // To be made durable, in order; none when the change was not executed now.
    std::optional<Record> log;
  };

  // Begins a leader's term; its first record, which makes the root in an empty tree. The epoch is
  // the store's, and higher than every earlier one: kConflict; above kMaxEpoch: kUnsupported.
  [[nodiscard]] Result<Record> lead(std::uint64_t epoch, std::int64_t nowNs);
  // After lead(). Every change once (R10): one with a known id is answered as it was. Of earlier
  // starts of an agent nothing more is executed, so the next one learns for certain what was.
  [[nodiscard]] Outcome execute(const Request& request);
  // After lead(). The leader's own changes have no ids.
  [[nodiscard]] Outcome decide(const LeaderChange& change, std::int64_t nowNs);

  // --- queries; none of them changes anything ---

  [[nodiscard]] Found lookUp(InodeId folder, std::string_view name) const;
  // An errno: ESTALE when the name means another inode, or none (R9).
  [[nodiscard]] std::int32_t check(const Place& place, InodeId inode) const;
  [[nodiscard]] std::optional<Attributes> attributes(InodeId inode) const;
  [[nodiscard]] const Content* content(InodeId inode) const;
  [[nodiscard]] const std::string* target(InodeId inode) const;
  // kNoInode for the root.
  [[nodiscard]] InodeId parentOf(InodeId folder) const;
  // Entries behind a cookie (0: all), `most` at most.
  [[nodiscard]] Listing list(InodeId folder, std::uint64_t after, std::size_t most) const;
  [[nodiscard]] const std::string* xattr(InodeId inode, const std::string& name) const;
  [[nodiscard]] std::vector<std::string> xattrs(InodeId inode) const;
  [[nodiscard]] const Session* session(InodeId inode) const { return tree_.session(inode); }
  [[nodiscard]] Usage usage() const;
  [[nodiscard]] Naming naming(InodeId inode, SessionId session, std::uint32_t chunk) const;
  // Agents, sessions, orphans, garbage. A leader says that something is garbage when the record in
  // its id is committed, not earlier (R11).
  [[nodiscard]] const Tree& tree() const { return tree_; }
  // Everything, as a checkpoint; takes as long as there are keys. A leader merges its last
  // checkpoint with its log instead (CheckpointMerge).
  void checkpoint(Bytes& to) const;

 private:
  [[nodiscard]] Outcome refuse(Refusal refusal, std::int32_t error) const;
  [[nodiscard]] Status commit(Record& record);

  NamespaceOptions options_;
  Tree tree_;
  std::uint64_t lastRecord_ = 0;
  bool leading_ = false;
  std::uint64_t lastCounter_ = 0;  // of ids given in this term
};

}  // namespace hearth::tree
