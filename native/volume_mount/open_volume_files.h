// The files that are open on a volume's mount: by which node id the kernel knows each of them, how
// it is open, and its backing file.
//
// The kernel answers EIO to an open that differs from the others of the same node: by the agent
// where those are by passthrough, or with another backing file. So such an open is refused with
// ESTALE; the kernel then looks the path up again, gets an alternative node id, and opens that one.
// A reader of the first node keeps the bytes that it opened.
//
// On the volume's reactor, but for reading().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "fuse/fuse_device.h"
#include "fuse/fuse_reads.h"
#include "fuse/fuse_statistics.h"
#include "volume_mount/node_table.h"
#include "volume_mount/volume_files.h"

namespace hearth {

// The file handle of a request: any agent can read it back.
struct VolumeHandle {
  bool passthrough = false;
  bool writes = false;
  std::uint32_t process = 0;  // that opened it; see callerOf()
  bool idle = false;          // OpenedVolumeFile::idle

  [[nodiscard]] std::uint64_t encode() const {
    return std::uint64_t{process} << 32 | (idle ? 4U : 0U) | (writes ? 2U : 0U) |
           (passthrough ? 1U : 0U);
  }
  [[nodiscard]] static VolumeHandle decode(std::uint64_t handle) {
    return {(handle & 1) != 0, (handle & 2) != 0, static_cast<std::uint32_t>(handle >> 32),
            (handle & 4) != 0};
  }
};

struct VolumeOpenAnswer {
  std::int32_t error = 0;
  bool passthrough = false;
  std::int32_t backingId = 0;
};

class OpenVolumeFiles {
 public:
  // All of them outlive this object.
  OpenVolumeFiles(FuseDevice& device, NodeTable& nodes, FuseCounters& counters)
      : device_(device), nodes_(nodes), counters_(counters) {}

  // --- node ids ---

  [[nodiscard]] tree::InodeId inodeOf(std::uint64_t node) { return nodes_.inodeOf(node); }
  // The id for an answer that makes the kernel know the inode: forget() undoes it. 0: the table of
  // nodes is full.
  [[nodiscard]] std::uint64_t lookUp(const tree::Attributes& attributes);
  void forget(std::uint64_t node, std::uint64_t lookups);
  // A node whose version is not the file's any more keeps the size that it was opened with.
  void keepOpenedSize(std::uint64_t node, tree::Attributes& attributes);

  // --- opens ---

  // Before a file is opened: 0, or ESTALE because a writer cannot share the node.
  [[nodiscard]] std::int32_t admits(std::uint64_t node, bool writes);
  // The file was opened and is to be answered for this node. On an error nothing is counted, and
  // the caller closes the writer that VolumeFiles has counted.
  [[nodiscard]] VolumeOpenAnswer open(std::uint64_t node, const OpenedVolumeFile& opened,
                                      bool writes);
  // The last one closes the backing file.
  void release(std::uint64_t node, bool writes);
  // Of a node that an earlier agent opened to answer its reads; null: the file has another version
  // now.
  [[nodiscard]] std::shared_ptr<FuseReading> reopened(std::uint64_t node,
                                                      const OpenedVolumeFile& opened);
  // The file to read; null: this agent has not opened the node. Any thread.
  [[nodiscard]] std::shared_ptr<FuseReading> reading(std::uint64_t node) const;

  [[nodiscard]] static std::shared_ptr<FuseReading> readingOf(const OpenedVolumeFile& opened);

  // Why files cannot be opened by passthrough; empty while they can. Any thread.
  [[nodiscard]] std::string passthroughReason() const;
  void disablePassthrough(const std::string& reason);

 private:
  // What this agent holds of an open node.
  struct Held {
    OwnedFd session;
    std::shared_ptr<FuseReading> reading;
  };
  struct Backing {
    int descriptor = -1;  // none: the agent answers reads
    std::uint64_t device = 0, file = 0;
  };
  [[nodiscard]] static Backing backingOf(const OpenedVolumeFile& opened);
  [[nodiscard]] static bool isOpenAs(const VolumeNode& node, const Backing& backing,
                                     const tree::ContentVersion& version);
  // ESTALE, and look-ups give another id from now on; ENFILE.
  [[nodiscard]] std::int32_t giveWay(std::uint64_t node);
  [[nodiscard]] std::int32_t openFirst(VolumeNode& node, const OpenedVolumeFile& opened,
                                       const Backing& backing);

  FuseDevice& device_;
  NodeTable& nodes_;
  FuseCounters& counters_;
  mutable std::mutex mutex_;                      // of what follows
  std::unordered_map<std::uint64_t, Held> held_;  // by node
  std::string reason_;
};

}  // namespace hearth
