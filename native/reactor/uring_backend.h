// Reactor over io_uring (liburing). Submissions are batched: one system call a turn submits what
// the turn produced and waits.
#pragma once

#include <liburing.h>

#include <deque>

#include "reactor/reactor.h"

namespace hearth {

class UringReactor final : public Reactor {
 public:
  // The backend probes the kernel. kOlderThan513 stands in for a kernel that refuses persistent
  // polls.
  enum class Kernel { kThis, kOlderThan513 };
  // kUnsupported, with the reason, where io_uring is not there or forbidden.
  [[nodiscard]] static Result<std::unique_ptr<UringReactor>> create(Kernel kernel = Kernel::kThis);
  ~UringReactor() override;

  // One poll reports all wake-ups; else each needs one.
  [[nodiscard]] bool pollStays() const { return pollStays_; }
  // Completions of these polls so far. Own thread.
  [[nodiscard]] std::uint64_t wakeups() const { return wakeups_; }

  const char* backendName() const override { return "io_uring"; }
  void cancel(Operation& operation) override;

 protected:
  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  bool arrived() override;
  void wake() override;

 private:
  explicit UringReactor(Kernel kernel) : kernel_(kernel) {}
  io_uring_sqe* nextEntry();
  // The first watch, by a poll that stays where the kernel has it.
  [[nodiscard]] Status beginWatching();
  // Ends the poll that was submitted; 0 or -errno.
  [[nodiscard]] int takeBackWatch();
  void watchWakeups();

  io_uring ring_{};
  int wakeup_ = -1;  // eventfd, polled by the ring
  const Kernel kernel_;
  bool pollStays_ = true;
  std::uint64_t wakeups_ = 0;
};

}  // namespace hearth
