// One mount being served: reads requests from /dev/fuse and has them answered. The mount itself
// belongs to the mount holder; a session may end and another one, in another process, go on.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"
#include "fuse/fuse_statistics.h"
#include "fuse/mount_source.h"
#include "fuse/read_ahead.h"

namespace hearth {

struct FuseSessionOptions {
  unsigned threads = 2;
  // False: every read goes through the daemon.
  bool passthrough = true;
  // From the holder: HolderRecord::epoch and ::state.
  std::uint32_t epoch = 1;
  std::string state;
  // Gives the state to the holder (HolderClient::saveState). Called at most once, before the
  // kernel's first request is answered; may block.
  std::function<Status(const std::string& state)> saveState;
  // The mount has ended (unmounted, aborted) or can no longer be served. Called at most once, on a
  // thread that serves the session and may not close it.
  std::function<void(const Error& reason)> onEnd;
  ReadAheadOptions readAhead;
  // Reads that the source may have unanswered; further ones wait until it has answered.
  std::size_t maxParkedReads = 4096;
};

class FuseSession {
 public:
  // Serves the connection `device` until close(), on threads. `openCounts` is the holder's shared
  // memory of this mount. Takes over what an earlier agent left when `options.epoch` is above 1.
  [[nodiscard]] static Result<std::unique_ptr<FuseSession>> start(
      OwnedFd device, const OwnedFd& openCounts, std::shared_ptr<MountSource> source,
      FuseSessionOptions options);
  // As close() with no timeout.
  virtual ~FuseSession() = default;

  // Reads no more requests; reads that wait for bytes get `timeout` to be answered. Later ones are
  // left to the next agent when `handOver` and the kernel can send them again (Linux 6.9), else
  // fail with EIO. The mount stays. Blocks; idempotent; not on a thread that serves the session.
  virtual void close(std::chrono::milliseconds timeout, bool handOver) = 0;

  // Any thread.
  [[nodiscard]] virtual FuseStatistics statistics() const = 0;
  // Why complete files are not opened by passthrough; empty when they are.
  [[nodiscard]] virtual std::string passthroughReason() const = 0;
};

}  // namespace hearth
