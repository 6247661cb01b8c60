// Reactor over epoll, for kernels and containers that forbid io_uring. Sockets are non-blocking and
// retried when ready; file calls run on helper threads.
#pragma once

#include <deque>
#include <unordered_map>

#include "reactor/reactor.h"

namespace hearth {

class EpollReactor final : public Reactor {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Reactor>> create();
  ~EpollReactor() override;

  const char* backendName() const override { return "epoll"; }
  void cancel(Operation& operation) override;

 protected:
  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  void wake() override;

 private:
  // Operations that wait for a descriptor, in order of arrival.
  struct Watched {
    std::deque<Operation*> readers;
    std::deque<Operation*> writers;
    bool registered = false;
  };

  EpollReactor() = default;
  void watch(int fd, Watched& watched);
  void ready(int fd, std::uint32_t events);

  int epoll_ = -1;
  int wakeup_ = -1;
  std::unordered_map<int, Watched> watched_;
  std::deque<Operation*> completed_;
  ThreadPool fileCalls_{{.threads = 4}};  // a sync takes longer than the quick calls of offload()
};

}  // namespace hearth
