// One mount being served: threads that read requests from /dev/fuse and answer them. The mount
// itself belongs to the mount holder; a session may end and another one, in another process, go on.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "fuse/fuse_service.h"
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
  // Gives the state to the holder (HolderClient::saveState). Called on a session thread, at most
  // once, before the kernel's first request is answered; may block.
  std::function<Status(const std::string& state)> saveState;
  // The mount has ended (unmounted, aborted) or can no longer be served. Called at most once, on a
  // session thread, which may not close the session.
  std::function<void(const Error& reason)> onEnd;
  ReadAheadOptions readAhead;
  // Reads that the source may have unanswered; further ones wait until it has answered.
  std::size_t maxParkedReads = 4096;
};

class FuseSession {
 public:
  // Serves the connection `device` until close(). `openCounts` is the holder's shared memory of
  // this mount. Takes over what an earlier agent left when `options.epoch` is above 1.
  [[nodiscard]] static Result<std::unique_ptr<FuseSession>> start(
      OwnedFd device, const OwnedFd& openCounts, std::shared_ptr<MountSource> source,
      FuseSessionOptions options);
  // The same for another kind of mount: of `options` only threads, epoch, state and onEnd count.
  [[nodiscard]] static Result<std::unique_ptr<FuseSession>> start(
      std::shared_ptr<FuseService> service, FuseSessionOptions options);
  // As close() with no timeout.
  ~FuseSession();

  // Stops the threads; reads that wait for bytes get `timeout` to be answered. Later ones are left
  // to the next agent when `handOver` and the kernel can send them again (Linux 6.9), else fail
  // with EIO. The mount stays. Idempotent; not on a session thread.
  void close(std::chrono::milliseconds timeout, bool handOver);

  // Any thread.
  [[nodiscard]] FuseStatistics statistics() const { return service_->statistics(); }
  // Why complete files are not opened by passthrough; empty when they are.
  [[nodiscard]] std::string passthroughReason() const { return service_->passthroughReason(); }

 private:
  FuseSession(std::shared_ptr<FuseService> service, FuseSessionOptions options);
  void serve(int poller);
  // False when the thread is to end.
  [[nodiscard]] bool serveOne(std::span<std::byte> buffer, bool& empty);
  void end(const Error& reason);

  const std::shared_ptr<FuseService> service_;
  const FuseSessionOptions options_;
  OwnedFd stop_;  // eventfd
  std::vector<OwnedFd> pollers_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
};

}  // namespace hearth
