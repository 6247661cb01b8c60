// Which files are open on a mount and how: decides between passthrough and the daemon, keeps one
// backing id a file, and the counts that the next agent finds.
//
// The rule that keeps the kernel from answering EIO: while a node is open one way, all its opens
// are that way, and by passthrough with the same backing id. The kernel stops counting an open
// before it sends RELEASE, and counts it after OPEN's answer, so what is not open here is not open
// there, and then either way is allowed: the first open takes the best one.
//
// After a hand-over the counts say how nodes are open. An open that they had no room for is the
// daemon's, so what they do not say is open that way, if at all.
//
// Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "fuse/fuse_device.h"
#include "fuse/fuse_reads.h"
#include "fuse/fuse_statistics.h"
#include "fuse/mount_source.h"
#include "fuse/node_id.h"
#include "fuse/open_counts.h"

namespace hearth {

// How a file was opened; the file handle of its requests, so that any agent can read it back.
enum class OpenMode : std::uint64_t { kDaemon = 1, kPassthrough = 2 };

struct OpenAnswer {
  OpenMode mode = OpenMode::kDaemon;
  std::int32_t backingId = 0;
  // Of kDaemon: what the kernel has of the node in its page cache is right. Else it is to be read
  // again, and `withdrawn` is what MountSource::withdrawn() said.
  bool keepsPages = false;
  std::uint64_t withdrawn = 0;
};

class OpenFiles {
 public:
  using Reading = FuseReading;

  // `passthrough` is turned off, with the reason, when the kernel refuses the first backing file.
  // All of them must remain live while this object is used.
  OpenFiles(MountSource& source, FuseDevice& device, OpenCounts& counts, FuseCounters& counters,
            std::atomic<bool>& passthrough);

  // Takes over what earlier agents left open, before the first request. Files stay in use until the
  // kernel releases them.
  void inherit();

  // Opens a file's node. An errno above 0 instead: ESTALE when an earlier release may have a node
  // of its own open by passthrough without a record; the kernel then looks the path up again and
  // comes with another node.
  [[nodiscard]] int open(std::uint64_t node, const ManifestEntry& entry, OpenAnswer& answer);
  // The kernel has heard that it keeps no pages of the node: until then no other open lets it.
  void pagesDropped(std::uint64_t node, std::uint64_t withdrawn);
  // The last one closes the backing file.
  void release(std::uint64_t node, OpenMode mode);
  // DONTNEED: an open of the caller's own does not keep the file. Where the daemon reads it, it is
  // let go, until the next read. By passthrough the kernel holds the bytes, and evicting them would
  // free nothing: then false, and the source is advised for `reader` when the file is closed,
  // unless it is opened before.
  [[nodiscard]] bool dontNeed(std::uint32_t entry, std::uint64_t reader);
  // WILLNEED: the file stays when it is closed.
  void willNeed(std::uint32_t entry);
  // The node's next open is the daemon's, also when its file is complete.
  [[nodiscard]] bool opensByDaemon(std::uint64_t node);
  // The file to read; also without an open, which an agent that was killed may have left uncounted.
  [[nodiscard]] Result<std::shared_ptr<Reading>> reading(const ManifestEntry& entry);

  // Why there is no passthrough; empty while there is.
  [[nodiscard]] std::string passthroughReason() const;
  void disablePassthrough(const std::string& reason);

 private:
  struct File {
    std::shared_ptr<Reading> reading;
    std::int32_t backingId = 0;  // of all its nodes; 0: none
    std::map<std::uint64_t, OpenCount> nodes;
    std::optional<std::uint64_t> evictAtClose;  // when it is closed: by this reader
  };
  struct Stripe {
    std::mutex mutex;
    std::unordered_map<std::uint32_t, File> files;  // open ones, by entry
    // By node: what MountSource::withdrawn() said when the kernel dropped its pages.
    std::unordered_map<std::uint64_t, std::uint64_t> dropped;
  };

  Stripe& stripeOf(std::uint32_t entry) { return stripes_[entry % stripes_.size()]; }
  [[nodiscard]] Result<std::shared_ptr<Reading>> openSource(const ManifestEntry& entry);
  [[nodiscard]] std::int32_t backingOf(File& file);
  [[nodiscard]] OpenAnswer openedByDaemon(const Stripe& stripe, std::uint64_t node,
                                          const ManifestEntry& entry);
  void drop(Stripe& stripe, std::uint32_t entry);

  MountSource& source_;
  FuseDevice& device_;
  OpenCounts& counts_;
  FuseCounters& counters_;
  std::atomic<bool>& passthrough_;
  // Set by inherit(): there was an earlier agent, and it may have left opens without a record.
  bool inherited_ = false;
  bool unrecorded_ = false;
  std::array<Stripe, 16> stripes_;
  mutable std::mutex reasonMutex_;
  std::string reason_;
};

}  // namespace hearth
