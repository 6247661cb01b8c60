// Requests of a mount that no agent serves: after the mount's deadline the holder takes back those
// that the agent has read (FUSE_NOTIFY_RESEND, Linux 6.9), and answers each one with EIO as it
// comes, until an agent serves the mount. Without it a program would wait for a stopped agent where
// no signal reaches it. One thread.
//
// What an agent answers later has no effect: the kernel knows no such request any more (ENOENT).
// RELEASE and its like are left with the kernel, which sends them again to an agent: no program
// waits for them, and only an agent can do them. Forgotten nodes are not sent again; an agent may
// take them for known.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "holder/mount_watch.h"

namespace hearth {

class UnservedRequests {
 public:
  explicit UnservedRequests(MountWatch watch) : watch_(std::move(watch)) {}

  // Answers what is there when no agent serves the mount, whose /dev/fuse is `device`
  // (non-blocking). A line for people when that begins or ends, without the name of the mount.
  [[nodiscard]] std::optional<std::string> end(int device, Clock::time_point now);
  // When end() has to look again; also, while answers(), when a request comes. Time::max(): never.
  [[nodiscard]] Clock::time_point due(Clock::time_point now) const;
  // Requests are answered here as they come.
  [[nodiscard]] bool answers() const { return answers_; }

 private:
  void answerAll(int device);
  void answer(int device, std::size_t bytes);

  MountWatch watch_;
  std::optional<Clock::time_point> silentSince_;  // seen to be; then it is looked at once more
  bool answers_ = false;
  bool over_ = false;  // the connection has ended
  std::uint64_t endedBefore_ = 0;
};

}  // namespace hearth
