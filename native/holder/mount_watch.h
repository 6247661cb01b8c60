// How the holder learns whether an agent serves a writable mount: words at the end of the memory
// that the holder keeps for the mount. The agent writes there while it serves. When it has written
// nothing for the mount's deadline, as a process that is stopped, hangs or has ended, the holder
// ends the requests of the mount (unserved_requests.h), and counts them there. Any thread.
//
// Layout of the last 64 bytes, of the machine's byte order: deadline u64, in nanoseconds, 0 where
// nothing is watched; served u64, the time of CLOCK_MONOTONIC in nanoseconds; ended u64; left u64;
// reported u64: of ended; 24 bytes of zeros. The two sides may be of neighbouring releases.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

class MountWatch {
 public:
  static constexpr std::size_t kBytes = 64;

  // `memory` of at least a page, a multiple of it long.
  [[nodiscard]] static Result<MountWatch> map(const OwnedFd& memory);
  MountWatch(MountWatch&& other) noexcept;
  MountWatch& operator=(MountWatch&&) = delete;
  ~MountWatch();

  // --- the agent ---

  // It serves the mount now, and will say so again before `deadline` is over.
  void serve(Clock::time_point now, Clock::duration deadline);
  // Requests that the holder has answered with EIO.
  [[nodiscard]] std::uint64_t ended() const;
  // Of these, how many no agent has been told of before.
  [[nodiscard]] std::uint64_t takeEnded();
  // Times that the holder has read a request which only an agent can do, and has left it to be sent
  // again. After a change the agent asks the kernel for it.
  [[nodiscard]] std::uint64_t left() const;

  // --- the holder ---

  // When the agent's deadline is over; Time::max(): it is not watched.
  [[nodiscard]] Clock::time_point until() const;
  void countEnded();
  void countLeft();

 private:
  struct Words;
  explicit MountWatch(void* page);

  void* page_;
  Words* words_;
};

}  // namespace hearth
