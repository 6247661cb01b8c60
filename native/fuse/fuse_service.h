// Answers the requests of one mount, which FuseSession reads from /dev/fuse. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "fuse/fuse_device.h"
#include "fuse/fuse_init.h"
#include "fuse/fuse_request.h"
#include "fuse/fuse_statistics.h"

namespace hearth {

class FuseService {
 public:
  virtual ~FuseService() = default;

  // Takes over a connection that another agent has initialised; before the first request.
  virtual void resume(const std::optional<FuseNegotiated>& negotiated) = 0;
  // One message of the kernel. An error ends the mount's service: the kernel is too old, or the
  // state could not be kept.
  [[nodiscard]] virtual Status dispatch(std::span<const std::byte> message) = 0;
  // Gives requests that wait until `limit`. Answers EIO to the rest, unless `leave` and the kernel
  // can send it again to the next agent. Afterwards nothing is written to the device.
  virtual void close(std::chrono::milliseconds limit, bool leave) = 0;

  [[nodiscard]] virtual int descriptor() const = 0;
  [[nodiscard]] virtual FuseStatistics statistics() const = 0;
  // Why complete files are not opened by passthrough; empty when they are.
  [[nodiscard]] virtual std::string passthroughReason() const = 0;
};

// Answers FUSE_INIT with what the kernel offers of `wanted`. `saveState` keeps what was negotiated
// for the next agent before the kernel gets the answer; it may be empty. None: the kernel will ask
// again in our version. Any thread.
[[nodiscard]] Result<std::optional<FuseNegotiated>> answerInit(
    FuseDevice& device, const FuseRequest& request, std::uint64_t wanted,
    const std::function<Status(const std::string& state)>& saveState);

}  // namespace hearth
