// Serves a mount of a writable volume: takes the kernel's requests on the session's threads and
// answers them on the volume's reactor, which must run while this object is used.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fuse/fuse_service.h"
#include "reactor/synchronization.h"
#include "volume_mount/open_volume_files.h"
#include "volume_mount/volume_requests.h"

namespace hearth {

struct VolumeServiceOptions {
  ReadAheadOptions readAhead;
  std::size_t maxParkedReads = 4096;
  // Keeps what was negotiated for the next agent; called before the kernel gets its answer.
  std::function<Status(const std::string& state)> saveState;
  // A read of an application failed; it sees an errno alone. Any thread.
  std::function<void(const Error& reason)> readFailed;
};

class VolumeService final : public FuseService, public std::enable_shared_from_this<VolumeService> {
 public:
  // `device` and `memory` are the holder's. kProtocolError when the memory is not of a volume's
  // mount. Any thread.
  [[nodiscard]] static Result<std::shared_ptr<VolumeService>> create(
      std::shared_ptr<VolumeFiles> files, OwnedFd device, const OwnedFd& memory,
      VolumeServiceOptions options);
  // The files that a mount's earlier agent left open for writing, for VolumeFiles::resume(). Blocks
  // for nothing; any thread.
  [[nodiscard]] static Result<std::vector<InheritedWriter>> inherited(const OwnedFd& memory);

  void resume(const std::optional<FuseNegotiated>& negotiated) override;
  [[nodiscard]] Status dispatch(std::span<const std::byte> message) override;
  // Blocks, after `limit`, until the calls that are under way have ended: at most for the volume's
  // deadline.
  void close(std::chrono::milliseconds limit, bool leave) override;

  [[nodiscard]] int descriptor() const override { return device_.descriptor(); }
  [[nodiscard]] FuseStatistics statistics() const override { return counters_.snapshot(); }
  [[nodiscard]] std::string passthroughReason() const override {
    return opens_.passthroughReason();
  }

 private:
  VolumeService(std::shared_ptr<VolumeFiles> files, OwnedFd device,
                std::unique_ptr<NodeTable> nodes, VolumeServiceOptions options);
  [[nodiscard]] Status initialise(const FuseRequest& request);
  void take(const FuseNegotiated& negotiated);
  // Of the session's threads: true when that was all.
  [[nodiscard]] bool answerHere(const FuseRequest& request);
  // False: of an attribute that volumes keep.
  [[nodiscard]] bool refuseXattr(const FuseRequest& request);
  void read(const FuseRequest& request);
  void forget(const FuseRequest& request);
  [[nodiscard]] Task<bool> finish(bool handsOver);
  void post(std::span<const std::byte> message, const FuseRequest& request);

  const std::shared_ptr<VolumeFiles> files_;
  FuseDevice device_;
  const VolumeServiceOptions options_;
  const std::shared_ptr<NodeTable> nodes_;
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
