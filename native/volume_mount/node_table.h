// How the nodes of a volume's mount are open, and which inodes alternative node ids stand for, in
// the shared memory that the holder keeps: the next agent reads there what it cannot learn from the
// kernel.
//
// A node id is the inode's id. A file that is open in a way that its next open cannot share gets an
// alternative id (bit 63), which stands for the inode until the kernel forgets it.
//
// An agent counts a handle before it answers, and writes the request's number behind the count. So
// the next agent, which gets an unanswered request again, knows whether it is counted.
//
// Layout, of the machine's byte order: magic u64, last alternative id u64, request counted last
// u64, zero u64; then the entries of the change journal, and VolumeNode slots, free where `node` is
// 0; the last 64 bytes are those of holder/mount_watch.h. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "namespace/ids.h"
#include "volume_mount/change_journal.h"

namespace hearth {

inline constexpr std::uint64_t kAlternativeNode = std::uint64_t{1} << 63;

// A node that is open, or has an alternative id.
struct VolumeNode {
  std::uint64_t node = 0;
  tree::InodeId inode = tree::kNoInode;
  std::uint64_t lookups = 0;  // answered with an alternative id, and not yet forgotten
  // While it is open: the version that was opened, and for passthrough its backing file.
  tree::SessionId session = tree::kNoSession;
  std::uint64_t device = 0, file = 0;  // st_dev, st_ino
  std::uint64_t length = 0;            // of the content, in bytes
  std::uint32_t counter = 0;
  std::int32_t backingId = 0;  // 0: the agent answers reads
  std::uint32_t opens = 0;     // handles, those for writing included
  std::uint32_t writers = 0;

  [[nodiscard]] tree::ContentVersion version() const { return {session, counter}; }
};

class NodeTable {
 public:
  static constexpr std::size_t kMinBytes = 4096 + ChangeJournal::kEntries * sizeof(JournalEntry);

  // Maps the whole of `memory`, at least kMinBytes; a fresh one is all zeros. kProtocolError when
  // it holds something else.
  [[nodiscard]] static Result<std::unique_ptr<NodeTable>> map(const OwnedFd& memory);
  ~NodeTable();
  NodeTable(const NodeTable&) = delete;
  NodeTable& operator=(const NodeTable&) = delete;

  // Null: it is not open, and has no alternative id that the kernel knows.
  [[nodiscard]] VolumeNode* find(std::uint64_t node);
  // The inode that a node id stands for; kNoInode: none that this mount has given out.
  [[nodiscard]] tree::InodeId inodeOf(std::uint64_t node);
  // The id that look-ups give: the alternative that was made last, or the inode's own.
  [[nodiscard]] std::uint64_t newest(tree::InodeId inode) const;

  // A place for the inode's own node, or the one it has. Null: the table is full.
  [[nodiscard]] VolumeNode* add(std::uint64_t node);
  [[nodiscard]] VolumeNode* addAlternative(tree::InodeId inode);
  // Frees the inode's nodes that are neither open nor known to the kernel by an alternative id. The
  // newest one stays while another is open: the look-up that it was made for may be on its way.
  void dropUnused(tree::InodeId inode);
  void each(const std::function<void(VolumeNode&)>& visit);
  // By any of its nodes; with a session, of the chunks that this one wrote.
  [[nodiscard]] bool isOpen(tree::InodeId inode, tree::SessionId session = tree::kNoSession);

  // A request is counted; before any other one is.
  void setCounted(std::uint64_t unique);
  [[nodiscard]] std::uint64_t counted() const;
  [[nodiscard]] ChangeJournal& journal() { return journal_; }

 private:
  struct Header;

  NodeTable(void* memory, std::size_t size);
  [[nodiscard]] VolumeNode* take(std::uint64_t node, tree::InodeId inode);
  void drop(VolumeNode& node);
  [[nodiscard]] std::vector<VolumeNode*> nodesOf(tree::InodeId inode);

  void* const memory_;
  const std::size_t size_;
  Header* const header_;
  const std::span<VolumeNode> slots_;
  ChangeJournal journal_;
  std::vector<VolumeNode*> free_;
  std::unordered_map<std::uint64_t, VolumeNode*> nodes_;
  std::set<std::pair<tree::InodeId, std::uint64_t>> alternatives_;
};

}  // namespace hearth
