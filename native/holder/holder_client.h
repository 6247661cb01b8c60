// The agent's and the command line's side of the holder's socket. Calls block until the holder has
// answered or the deadline is over; any thread, one call at a time goes over the socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "holder/holder_protocol.h"
#include "holder/owned_fd.h"

namespace hearth {

// A mount that this agent is to serve.
struct HeldMount {
  HolderRecord record;
  OwnedFd device;  // /dev/fuse of the connection, non-blocking
  OwnedFd shared;  // memfd of kHolderSharedBytes
};

struct HolderMountRequest {
  std::string target;          // absolute path of a directory
  std::string source;          // shown by `mount`
  std::string blob;            // comes back with attach(); at most kMaxHolderBlob bytes
  std::string selinuxContext;  // empty: none
  std::uint32_t readAheadKiB = 4096;
};

class HolderClient {
 public:
  // kUnavailable when no holder answers at `socketPath`. `deadline` holds for each later call as
  // well; after kDeadlineExceeded or kProtocolError the connection is closed and every call fails.
  [[nodiscard]] static Result<std::unique_ptr<HolderClient>> connect(
      const std::string& socketPath, std::chrono::milliseconds deadline = std::chrono::seconds(10));

  // Becomes the agent of `owner`, until this object goes, and takes over its mounts with raised
  // epochs. kInUse while another agent is that.
  [[nodiscard]] Result<std::vector<HeldMount>> attach(const std::string& owner);
  // After attach(). The same request twice gives the same mount. kInUse, kNotFound,
  // kInvalidArgument with the reason when the mount point cannot be used.
  [[nodiscard]] Result<HeldMount> mount(const HolderMountRequest& request);
  // After attach(): `state` comes back with the mount's record when the next agent attaches.
  [[nodiscard]] Status saveState(const std::string& target, const std::string& state);

  // kInUse while files are open there, unless `force`, which detaches it all the same.
  [[nodiscard]] Status unmount(const std::string& target, bool force);
  // All mounts of all owners.
  [[nodiscard]] Result<std::vector<HolderRecord>> list();

  // False once the holder has gone or a call has failed for good. Any thread.
  [[nodiscard]] bool alive();
  // For poll(): becomes readable when the holder has gone. Owned by this object.
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  struct Answer {
    HolderReply reply;
    std::vector<OwnedFd> descriptors;
  };

  explicit HolderClient(OwnedFd socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Result<Answer> call(HolderRequest request);
  [[nodiscard]] Result<Answer> receive();
  [[nodiscard]] static Result<HeldMount> held(Answer answer);

  std::mutex mutex_;
  OwnedFd socket_;
  std::uint32_t sequence_ = 0;
  bool broken_ = false;
};

}  // namespace hearth
