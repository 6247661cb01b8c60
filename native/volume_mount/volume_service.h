// Answers the kernel's requests for a mount of a writable volume, on the volume's reactor, which
// must run while this object is used.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuse/answer_init.h"
#include "fuse/fuse_statistics.h"
#include "holder/mount_watch.h"
#include "reactor/synchronization.h"
#include "reactor/thread_pool.h"
#include "volume_mount/open_volume_files.h"
#include "volume_mount/volume_requests.h"

namespace hearth {

struct VolumeServiceOptions {
  // Copies the bytes of reads; outlives the service.
  ThreadPool* threads = nullptr;
  ReadAheadOptions readAhead;
  std::size_t maxParkedReads = 4096;
  // Keeps what was negotiated for the next agent; called before the kernel gets its answer. May
  // block.
  std::function<Status(const std::string& state)> saveState;
  // A read of an application failed; it sees an errno alone. Any thread.
  std::function<void(const Error& reason)> readFailed;
};

class VolumeService final : public std::enable_shared_from_this<VolumeService> {
 public:
  // `device` and `memory` are the holder's. kProtocolError when the memory is not of a volume's
  // mount. Any thread.
  [[nodiscard]] static Result<std::shared_ptr<VolumeService>> create(
      std::shared_ptr<VolumeFiles> files, OwnedFd device, const OwnedFd& memory,
      VolumeServiceOptions options);
  // The files that a mount's earlier agent left open for writing, for VolumeFiles::resume(). Blocks
  // for nothing; any thread.
  [[nodiscard]] static Result<std::vector<InheritedWriter>> inherited(const OwnedFd& memory);

  // Takes over a connection that another agent has initialised; before the first request.
  void resume(const std::optional<FuseNegotiated>& negotiated);
  // False: so many requests wait that the next one should stay with the kernel. Any thread.
  [[nodiscard]] bool accepts() const { return answers_.accepts(); }
  // One message of the kernel, which stays until the task has ended; its answer may come later. An
  // error ends the mount's service: the kernel is too old, or the state could not be kept. On the
  // reactor.
  [[nodiscard]] Task<Status> dispatch(std::span<const std::byte> message);
  // Says that the mount is served, and answers requests whose time is over. Often, on the reactor.
  void tick();
  // The holder has left requests to this agent, which the kernel now sends again among those that
  // are being worked on. On the reactor.
  [[nodiscard]] bool askAgain();
  // Gives requests that wait until `limit`. Answers EIO to the rest, unless `leave` and the kernel
  // can send it again to the next agent. Afterwards nothing is written to the device. Blocks, after
  // `limit`, until the calls that are under way have ended: at most for the volume's deadline.
  void close(std::chrono::milliseconds limit, bool leave);

  // close() has left unanswered requests to the next agent. Any thread.
  [[nodiscard]] bool left() const { return answers_.left(); }

  [[nodiscard]] Reactor& reactor() const { return files_->reactor(); }
  [[nodiscard]] int descriptor() const { return device_.descriptor(); }
  [[nodiscard]] FuseStatistics statistics() const { return counters_.snapshot(); }
  // Why complete files are not opened by passthrough; empty when they are.
  [[nodiscard]] std::string passthroughReason() const { return opens_.passthroughReason(); }

 private:
  VolumeService(std::shared_ptr<VolumeFiles> files, OwnedFd device,
                std::unique_ptr<NodeTable> nodes, MountWatch watch, VolumeServiceOptions options);
  [[nodiscard]] Task<Status> initialise(const FuseRequest& request);
  void take(const FuseNegotiated& negotiated);
  // True: the request needs nothing of the volume, and has its answer.
  [[nodiscard]] bool answerHere(const FuseRequest& request);
  // False: of an attribute that volumes keep.
  [[nodiscard]] bool refuseXattr(const FuseRequest& request);
  void read(const FuseRequest& request);
  void forget(const FuseRequest& request);
  [[nodiscard]] Task<bool> finish(bool handsOver);
  void serve(std::span<const std::byte> message, const FuseRequest& request);

  const std::shared_ptr<VolumeFiles> files_;
  FuseDevice device_;
  const VolumeServiceOptions options_;
  const std::shared_ptr<NodeTable> nodes_;
  MountWatch watch_;
  std::uint64_t left_ = 0;     // of MountWatch, when it was looked at last
  std::uint64_t overdue_ = 0;  // requests that were reported to `files_`
  // Answers VolumeFiles, on the reactor, from the table; also after a hand-over.
  const std::shared_ptr<std::shared_ptr<NodeTable>> asked_;
  FuseCounters counters_;
  FuseReads reads_;
  OpenVolumeFiles opens_;
  VolumeAnswers answers_;
  VolumeRequests requests_;
  std::atomic<bool> canResend_{false};
  Gate running_;
};

}  // namespace hearth
