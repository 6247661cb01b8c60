// The seam between the FUSE protocol and a writable volume: one volume as the mounts of this agent
// use it. native/sessions implements it.
//
// Every call is made, and continues, on the volume's reactor. Each ends by the volume's deadline.
// `error` is an errno of Linux, 0 when the call did what it was asked for; ETIMEDOUT stands for a
// leader that did not answer by the deadline, ENOENT for a volume that was deleted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuse/mount_source.h"
#include "namespace/change.h"
#include "namespace/namespace.h"
#include "reactor/reactor.h"
#include "volume/change_message.h"
#include "volume/query_message.h"
#include "volume/request_note.h"

namespace hearth {

// A file that was opened. Exactly one of `session` and `reading` says where its bytes are, unless
// `error` is set or the file is empty and was opened for reading.
struct OpenedVolumeFile {
  std::int32_t error = 0;
  bool created = false;
  // Opened for writing, and another agent has the file, which is empty: no writer was counted, and
  // write() asks for the session (R1). Lock files are opened like this.
  bool idle = false;
  tree::Attributes attributes;  // `size` is the session file's while this node writes the file
  // The session file, open for reading alone and the caller's own: for FUSE passthrough of readers
  // and writers of this node. The kernel opens it again with each program's flags; a descriptor for
  // writing would keep the file from being sealed.
  OwnedFd session;
  // The content that was published last: whole and local (backing()), or read through the agent.
  // It stays readable while this object lives, also when the name is gone.
  std::shared_ptr<MountSource::OpenFile> reading;
  // Tells two openings apart that must not share a kernel node: of a session, or of a content.
  tree::ContentVersion version;
};

// A file that the kernel had open for writing on this node when the last agent ended.
struct InheritedWriter {
  tree::InodeId inode = tree::kNoInode;
  std::uint32_t handles = 0;
  tree::SessionId session = tree::kNoSession;  // in which it was opened first
  std::uint64_t device = 0, file = 0;          // of the session file: st_dev, st_ino
};

class VolumeFiles {
 public:
  virtual ~VolumeFiles() = default;
  [[nodiscard]] virtual Reactor& reactor() = 0;
  // Of each operation. On the reactor.
  [[nodiscard]] virtual Clock::duration deadline() const = 0;
  // When a call has last brought bytes of the file to where they must be, as a sync or a copy does:
  // its deadline counts from then. Clock::time_point(): not lately. On the reactor.
  [[nodiscard]] virtual Clock::time_point lastProgress(tree::InodeId inode) const = 0;

  // Requests that were answered without their calls, since the last report: by this agent because
  // the deadline was over, and by the holder because no agent served the mount. On the reactor.
  virtual void reportEnded([[maybe_unused]] std::uint64_t overdue,
                           [[maybe_unused]] std::uint64_t unserved) {}

  // Before any other call of an agent's first mount of the volume: adopts the session files that an
  // earlier agent left. Those that no handle in `writers` has open are published and sealed.
  [[nodiscard]] virtual Task<void> resume(std::vector<InheritedWriter> writers) = 0;

  // True while the kernel has a file open; with a session, the chunks that this one wrote. Asked on
  // the reactor, of each mount until close(): an open file stays when it has lost its last name,
  // and its chunks when it has others now. Volumes that never remove files ignore it.
  using IsOpen = std::function<bool(tree::InodeId, tree::SessionId)>;
  virtual void addOpenFiles([[maybe_unused]] IsOpen isOpen) {}

  // Attributes and sizes of files that this node writes are those of their session files.
  [[nodiscard]] virtual Task<QueryReply> query(VolumeQuery query) = 0;
  // Changes of names and attributes but for Create with `opens`, OpenForWriting, Publish and
  // EndSession, which the calls below make. A rename or link of a file that this node writes
  // publishes it in the same record (R4). SetAttributes with a size goes to the session file, which
  // it opens for as long as it takes. With a note, whose earlier() is asked first, a change that
  // cannot be made twice is made once (R10).
  [[nodiscard]] virtual Task<ChangeReply> change(tree::ClientChange change,
                                                 std::shared_ptr<RequestNote> note = nullptr) = 0;

  // `place`: the name by which the kernel came; ESTALE when it means another inode now (R9).
  [[nodiscard]] virtual Task<OpenedVolumeFile> openToRead(tree::InodeId inode,
                                                          std::optional<tree::Place> place) = 0;
  // EBUSY: another agent writes the file. Counts a writer until closeWriter(), unless the file is
  // idle.
  [[nodiscard]] virtual Task<OpenedVolumeFile> openToWrite(tree::InodeId inode,
                                                           std::optional<tree::Place> place,
                                                           bool truncates) = 0;
  // Of `create.opens`: opens the file for writing, as openToWrite().
  [[nodiscard]] virtual Task<OpenedVolumeFile> create(
      tree::Create create, bool truncates, std::shared_ptr<RequestNote> note = nullptr) = 0;

  // A write of a handle that was opened idle: all of the bytes are written and published, or an
  // errno; EBUSY: another agent writes the file. No offset: at the end.
  [[nodiscard]] virtual Task<std::int32_t> write(tree::InodeId inode,
                                                 std::optional<std::uint64_t> offset,
                                                 std::span<const std::byte> bytes) = 0;

  // The process that opened a handle for writing closes it: publishes what has changed. Later
  // look-ups and opens on every node see it. 0 at once when nothing has changed.
  [[nodiscard]] virtual Task<std::int32_t> publish(tree::InodeId inode) = 0;
  // fsync(2): what was written survives a crash of this node's kernel. Publishes nothing (scratch).
  [[nodiscard]] virtual Task<std::int32_t> sync(tree::InodeId inode) = 0;
  [[nodiscard]] virtual Task<std::int32_t> allocate(tree::InodeId inode, std::uint32_t mode,
                                                    std::uint64_t offset, std::uint64_t length) = 0;
  // The session file is found again after this, without what the mount knows of it. Before a handle
  // for writing is released. Does nothing for other files.
  [[nodiscard]] virtual Task<void> nameSession([[maybe_unused]] tree::InodeId inode) { co_return; }
  // A handle for writing was released. The last one publishes what has changed since, and seals the
  // session file.
  [[nodiscard]] virtual Task<void> closeWriter(tree::InodeId inode) = 0;
};

}  // namespace hearth
