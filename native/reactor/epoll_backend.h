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
  // to none of them. `isDone` is asked on the calling thread. `awaited`: a thread waits for nothing
  // else, so that the reactor looks for a moment before each sleep.
  void runUntil(Clock::time_point deadline, const std::function<bool()>& isDone,
                bool awaited = false);

  const char* backendName() const override { return "epoll"; }
  bool blocksForFiles() const override { return true; }
  void cancel(Operation& operation) override;

 protected:
  void submit(Operation& operation) override;
  void wait(Clock::time_point deadline) override;
  bool arrived() override;
  void wake() override;

 private:
  // Operations that wait for a descriptor, in order of arrival.
  struct Watched {
    std::deque<Operation*> readers;
    std::deque<Operation*> writers;
    // With epoll, and maybe under a number that another descriptor has by now.
    bool registered = false;
    bool listed = false;  // in unwatched_
    // The last receive got less than it had room for, so that trying the next one is in vain.
    bool drained = false;
  };
  // Completions are taken at most so often in a row without a look at the sockets.
  static constexpr int kMostLooksLeftOut = 8;
  // Of arrived(), between two questions to epoll.
  static constexpr unsigned kMostTriesWithoutEpoll = 4;

  EpollReactor() = default;
  // Has epoll watch the descriptor from the next look on.
  void watchSoon(int fd, Watched& watched);
  void watch(int fd, Watched& watched);
  void ready(int fd, std::uint32_t events);
  // Receives at once what has come; true when that was all that the operation asks for.
  [[nodiscard]] bool tryAtOnce(Operation& operation);
  [[nodiscard]] bool isDone() const { return isDone_ != nullptr && (*isDone_)(); }
  void look(Clock::time_point deadline);
  // Completes what epoll reports within `timeout` milliseconds.
  void collect(int timeout);

  int epoll_ = -1;
  int wakeup_ = -1;
  std::unordered_map<int, Watched> watched_;
  std::vector<int> unwatched_;  // that epoll does not watch yet: tried without epoll before a sleep
  std::deque<Operation*> completed_;
  const std::function<bool()>* isDone_ = nullptr;  // of runUntil(), while it runs
  bool awaited_ = false;
  Clock::time_point until_ = Clock::time_point::max();
  int looksLeftOut_ = 0;
  unsigned triesWithoutEpoll_ = 0;
  ThreadPool fileCalls_{{.threads = 4}};  // a sync takes longer than the quick calls of offload()
};

}  // namespace hearth
