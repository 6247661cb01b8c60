// Reactor over epoll, for kernels and containers that forbid io_uring. Sockets are non-blocking and
// retried when ready; file calls run on helper threads.
#pragma once

#include <deque>
#include <unordered_map>

#include "reactor/reactor.h"

namespace hearth {

class EpollReactor final : public Reactor {
 public:
  [[nodiscard]] static Result<std::unique_ptr<EpollReactor>> create();
  ~EpollReactor() override;

  // run() until `isDone` holds when nothing is left to do without input and output, or until
  // `deadline`. Threads may run the reactor by turns, never two at a time: what is pending belongs
  // to none of them. `isDone` is asked on the calling thread.
  void runUntil(Clock::time_point deadline, const std::function<bool()>& isDone);

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
    // With epoll, and maybe under a number that another descriptor has by now.
    bool registered = false;
    // The last receive got less than it had room for, so that trying the next one is in vain.
    bool drained = false;
  };
  // Completions are taken at most so often in a row without a look at the sockets.
  static constexpr int kMostLooksLeftOut = 8;

  EpollReactor() = default;
  void watch(int fd, Watched& watched);
  void ready(int fd, std::uint32_t events);
  // Receives at once what has come; true when that was all that the operation asks for.
  [[nodiscard]] bool tryAtOnce(Operation& operation);
  void look(Clock::time_point deadline);

  int epoll_ = -1;
  int wakeup_ = -1;
  std::unordered_map<int, Watched> watched_;
  std::deque<Operation*> completed_;
  const std::function<bool()>* isDone_ = nullptr;  // of runUntil(), while it runs
  Clock::time_point until_ = Clock::time_point::max();
  int looksLeftOut_ = 0;
  ThreadPool fileCalls_{{.threads = 4}};  // a sync takes longer than the quick calls of offload()
};

}  // namespace hearth
