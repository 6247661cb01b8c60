// System calls that may never return (mount(2), a look at a path whose file system is hung) in a
// child process with a deadline: neither a thread nor the end of this process waits for them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// For a child process, as its first act: it ends with the thread that made it, and at once when
// `parent`, the process of that thread, is gone already. Only system calls.
void endWithParent(pid_t parent);

// The answer of a child: a few bytes and at most one descriptor.
struct ChildAnswer {
  std::string bytes;
  OwnedFd descriptor;
};

// Any thread.
class ChildCalls {
 public:
  explicit ChildCalls(std::chrono::milliseconds deadline = std::chrono::seconds(5))
      : deadline_(deadline) {}
  // Children that hang are not waited for.
  ~ChildCalls();
  ChildCalls(const ChildCalls&) = delete;
  ChildCalls& operator=(const ChildCalls&) = delete;

  // Runs `work` in a child process and gives its answer, at most kMaxAnswer bytes long. The child
  // ends with this process, has no descriptor of it, and copies of its locks: `work` takes none.
  // `what` is for the error: kDeadlineExceeded after the deadline, kUnavailable while kMaxHung
  // earlier children have not ended.
  [[nodiscard]] Result<ChildAnswer> run(const std::string& what,
                                        const std::function<ChildAnswer()>& work);
  // The two halves of run(), for who has other things to wait for: the answer is there when
  // `channel` is readable. Each begun call is finished or abandoned, once, before this object.
  // kUnavailable while kMaxHung / 2 have not ended, so that there is room for run(). The child has
  // a copy of `descriptor` as kDescriptor.
  struct Running {
    std::string what;
    OwnedFd channel;
    pid_t child = 0;
    Clock::time_point until;
  };
  [[nodiscard]] Result<Running> begin(const std::string& what,
                                      const std::function<ChildAnswer()>& work,
                                      int descriptor = -1);
  // Waits for the answer until `running.until`.
  [[nodiscard]] Result<ChildAnswer> finish(Running running);
  // Kills the child; nothing is waited for.
  void abandon(const Running& running) { reap(running.child, false); }

  // run() for work whose outcome is a Status, which packed() makes an answer of, and back.
  [[nodiscard]] Status runStatus(const std::string& what, const std::function<Status()>& work);

  [[nodiscard]] static ChildAnswer packed(const Status& status);
  [[nodiscard]] static Status unpacked(const ChildAnswer& answer);

  static constexpr std::size_t kMaxAnswer = 32768;
  static constexpr std::size_t kMaxHung = 16;
  static constexpr int kDescriptor = 4;

 private:
  // At most `most` children that have not ended, with this one.
  [[nodiscard]] Result<Running> start(const std::string& what,
                                      const std::function<ChildAnswer()>& work, std::size_t most,
                                      int descriptor);
  [[nodiscard]] Result<ChildAnswer> await(const Running& running) const;
  void reap(pid_t child, bool answered);

  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::size_t running_ = 0;
  std::vector<pid_t> hung_;  // killed, and kept by the kernel
};

}  // namespace hearth
