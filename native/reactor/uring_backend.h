// Reactor over io_uring (liburing). Submissions are batched: one system call a turn submits what
// the turn produced and waits.
#pragma once

#include <liburing.h>

#include <deque>

#include "reactor/reactor.h"

namespace hearth {

class UringReactor final : public Reactor {
 public:
  // kUnsupported, with the reason, where io_uring is not there or forbidden.
  [[nodiscard]] static Result<std::unique_ptr<Reactor>> create();
  ~UringReactor() override;

  const char* backendName() const override { return "io_uring"; }
  void cancel(Operation& operation) override;

 protected:
  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  void wake() override;

 private:
  UringReactor() = default;
  io_uring_sqe* nextEntry();
  void watchWakeups();

  io_uring ring_{};
  int wakeup_ = -1;  // eventfd, polled by the ring
};

}  // namespace hearth
