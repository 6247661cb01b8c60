// The agent's and the command line's side of the holder's socket. Calls block until the holder has
// answered or the deadline is over; any thread, one call at a time goes over the socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/holder_listener.h"
#include "holder/holder_protocol.h"

namespace hearth {

// A mount that this agent is to serve.
struct HeldMount {
  HolderRecord record;
  OwnedFd device;  // /dev/fuse of the connection, non-blocking
  OwnedFd shared;  // memfd of kHolderSharedBytes
};

struct HolderMountRequest {
  std::string target;                     // absolute path of a directory
  std::string source;                     // shown by `mount`
  std::string blob;                       // comes back with attach(); at most kMaxHolderBlob bytes
  std::vector<std::string> options = {};  // "name=value", of allowedMountOption()
  bool writable = false;
  std::uint32_t readAheadKiB = 4096;
};

// Memory that the holder keeps.
struct KeptMemory {
  HolderMemory record;
  OwnedFd descriptor;
};

// All that a holder has, given to the one that follows.
struct HandedOver {
  std::vector<HeldMount> mounts;  // without descriptors: aborted ones
  std::vector<KeptMemory> memory;
};

class HolderClient {
 public:
  // kUnavailable when no holder answers at `socketPath`; kUnsupported when it speaks no version of
  // this client. `deadline` holds for each later call as well; after kDeadlineExceeded or
  // kProtocolError the connection is closed and every call fails.
  [[nodiscard]] static Result<std::unique_ptr<HolderClient>> connect(
      const std::string& socketPath, std::chrono::milliseconds deadline = std::chrono::seconds(10));

  // The holder's greeting. Any thread.
  [[nodiscard]] const HolderHello& holder() const { return holder_; }

  // Becomes the agent of `owner`, until this object goes, and takes over its mounts with raised
  // epochs. kInUse while another agent is that.
  [[nodiscard]] Result<std::vector<HeldMount>> attach(const std::string& owner);
  // The same for an agent that serves its mounts already, after its connection was lost: epochs
  // stay as they are and nothing is taken.
  [[nodiscard]] Status reattach(const std::string& owner);
  // After reattach(): gives a mount to a holder that does not know it, with copies of its
  // descriptors. kNotFound when it is not in the kernel's table any more.
  [[nodiscard]] Status enroll(const HeldMount& mount);
  // After attach(). The same request twice gives the same mount. kInUse, kNotFound,
  // kInvalidArgument with the reason when the mount point cannot be used.
  [[nodiscard]] Result<HeldMount> mount(const HolderMountRequest& request);
  // After attach(): `state` comes back with the mount's record when the next agent attaches.
  [[nodiscard]] Status saveState(const std::string& target, const std::string& state);

  // kInUse while files are open there, unless `force`, which detaches it all the same.
  [[nodiscard]] Status unmount(const std::string& target, bool force);
  // All mounts of all owners.
  [[nodiscard]] Result<std::vector<HolderRecord>> list();

  // After attach(): memory, or a folder, that the owner's next agent can take. `memory` needs owner
  // neither nor absence; its descriptor is copied. kConflict unless its generation is above that of
  // the memory of this name; kUnsupported for a folder by a holder of a release before.
  [[nodiscard]] Status keepMemory(const HolderMemory& memory, const OwnedFd& descriptor);
  // Its record says whether those that had it before have ended (kHolderWatchesUsers).
  [[nodiscard]] Result<KeptMemory> takeMemory(const std::string& name);
  // Takes the room of [offset, offset + bytes) of memory that is kept, whole pages of it, so that
  // the holder is charged for it; returns how much of it lies in pages of 2 MiB or more. In pieces
  // of `piece`, at most kMaxHolderTouch and whole pages: between two of them other calls pass.
  // 0.1 to 2 s a GiB. kUnsupported when the holder touches none (holder().touchBytes),
  // kOutOfSpace.
  [[nodiscard]] Result<std::uint64_t> touchMemory(const std::string& name, std::uint64_t offset,
                                                  std::uint64_t bytes,
                                                  std::uint64_t piece = 256ULL << 20);
  // After attach(): the folder of this name (HolderMemory::folder), whose files together may take
  // `bytes`, which the holder makes or resizes; `bytes` of its record are whole pages. A file of it
  // is at /proc/self/fd/N/FILE, with the number of the descriptor. kUnsupported by a holder of a
  // release before, kConflict when memory of this name is no folder, kOutOfSpace when its files
  // are more than that.
  [[nodiscard]] Result<KeptMemory> openFolder(const std::string& name, std::uint64_t bytes);
  // touchMemory() for a part of a file of the folder, which is open for writing and as long as it
  // is to be: `offset` is on a page, and the end on one or that of the file. After an error the
  // file may have some of the room.
  [[nodiscard]] Result<std::uint64_t> touchFile(const std::string& folder, const OwnedFd& file,
                                                std::uint64_t offset, std::uint64_t bytes,
                                                std::uint64_t piece = 256ULL << 20);
  [[nodiscard]] Result<std::vector<HolderMemory>> listMemory();
  [[nodiscard]] Status dropMemory(const std::string& name);

  // After attach(): registers `file` for passthrough on the mount at `target`, which needs no
  // privilege of ours; gives its backing id.
  [[nodiscard]] Result<std::uint32_t> openBacking(const std::string& target, const OwnedFd& file);
  [[nodiscard]] Status closeBacking(const std::string& target, std::uint32_t id);

  // For a holder that follows: everything. The other one answers no other client from then on,
  // until finishHandOver(), or until this object goes.
  [[nodiscard]] Result<HandedOver> handOver();
  // After handOver(): copies of its lock and its listening socket. Features kHolderGivesSocket.
  [[nodiscard]] Result<HolderListener> takeListener();
  // The other one has let go of everything and ends. After an error it has let go of nothing, as
  // long as it lives.
  [[nodiscard]] Status finishHandOver();

  // False once the holder has gone or a call has failed for good. Any thread, never waits.
  [[nodiscard]] bool alive() const;
  // Returns once alive() is false, however long that takes. Any thread.
  void waitForEnd() const;
  // Ends the connection: calls under way and later ones fail. Any thread.
  void end();

 private:
  struct Answer {
    HolderReply reply;
    std::vector<OwnedFd> descriptors;
  };

  explicit HolderClient(OwnedFd socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Result<Answer> call(HolderRequest request, std::span<const int> descriptors = {});
  [[nodiscard]] Result<Answer> exchange(const HolderRequest& request,
                                        std::span<const int> descriptors);
  [[nodiscard]] Result<Answer> receive(int flags);
  // Touches in pieces; `descriptors` come with each.
  [[nodiscard]] Result<std::uint64_t> touch(HolderRequest request, std::uint64_t piece,
                                            std::span<const int> descriptors = {});
  // Ok when the holder has this feature of the first word.
  [[nodiscard]] Status needs(std::uint64_t feature) const;
  [[nodiscard]] Status callStatus(HolderRequest request, std::span<const int> descriptors = {});
  [[nodiscard]] Status greet();
  [[nodiscard]] static Result<HeldMount> held(Answer answer);
  [[nodiscard]] static Result<KeptMemory> memoryIn(Result<Answer> answer);

  std::mutex mutex_;
  OwnedFd socket_;
  std::uint32_t sequence_ = 0;
  std::atomic<bool> broken_{false};
  HolderHello holder_;
};

}  // namespace hearth
