// Answers the requests of one mount. Any thread; a request is answered before dispatch() returns,
// but for reads of bytes that are not here yet: the thread that brings those answers them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuse/fuse_device.h"
#include "fuse/fuse_init.h"
#include "fuse/fuse_reads.h"
#include "fuse/fuse_request.h"
#include "fuse/fuse_statistics.h"
#include "fuse/fuse_tree.h"
#include "fuse/mount_source.h"
#include "fuse/open_counts.h"
#include "fuse/open_files.h"

namespace hearth {

struct FuseDispatcherOptions {
  bool passthrough = true;
  ReadAheadOptions readAhead;
  std::size_t maxParkedReads = 4096;
  // Keeps what was negotiated for the next agent; called before the kernel gets its answer.
  std::function<Status(const std::string& state)> saveState;
};

class FuseDispatcher final : public std::enable_shared_from_this<FuseDispatcher> {
 public:
  FuseDispatcher(std::shared_ptr<MountSource> source, OwnedFd device,
                 std::unique_ptr<OpenCounts> counts, FuseDispatcherOptions options);

  // Takes over a connection that another agent has initialised; before the first request.
  void resume(const std::optional<FuseNegotiated>& negotiated);
  // One message of the kernel. An error ends the mount's service: the kernel is too old, or the
  // state could not be kept.
  [[nodiscard]] Status dispatch(std::span<const std::byte> message);
  // Gives requests that wait until `limit`. Answers EIO to the rest, unless `leave` and the kernel
  // can send it again to the next agent. Afterwards nothing is written to the device.
  void close(std::chrono::milliseconds limit, bool leave);

  [[nodiscard]] int descriptor() const { return device_.descriptor(); }
  [[nodiscard]] FuseStatistics statistics() const { return counters_.snapshot(); }
  // Why complete files are not opened by passthrough; empty when they are.
  [[nodiscard]] std::string passthroughReason() const { return files_.passthroughReason(); }

 private:
  [[nodiscard]] Status initialise(const FuseRequest& request);
  [[nodiscard]] bool dispatchTree(const FuseRequest& request);
  void readDirectory(const FuseRequest& request, bool plus);
  void xattr(const FuseRequest& request);
  void open(const FuseRequest& request);
  void openDirectory(const FuseRequest& request);
  void release(const FuseRequest& request);
  void read(const FuseRequest& request);
  void interrupt(const FuseRequest& request);
  void ioctl(const FuseRequest& request);
  void take(const FuseNegotiated& negotiated);
  template <class T>
  void answer(std::uint64_t unique, int error, const T& body);

  const std::shared_ptr<MountSource> source_;
  FuseDevice device_;
  const std::unique_ptr<OpenCounts> counts_;
  const FuseDispatcherOptions options_;
  FuseCounters counters_;
  std::atomic<bool> passthrough_;
  std::atomic<bool> openlessDirectories_{false};
  std::atomic<bool> canResend_{false};
  FuseTree tree_;
  OpenFiles files_;
  FuseReads reads_;
};

}  // namespace hearth
