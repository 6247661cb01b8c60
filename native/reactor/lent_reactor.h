// A reactor that its thread lends, while nothing is under way, to threads which wait for what the
// reactor does: such a thread sends and receives by itself, and wakes no other one for that. One
// thread at a time runs the reactor: its own, or a borrower.
//
// A reactor that is lent and that nobody runs does nothing, except that its own thread looks every
// kLooksEvery whether anybody has run it since, and else takes it back for good. So whoever posts
// work runs the reactor, or calls takeBack().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "reactor/reactor.h"

namespace hearth {

class EpollReactor;

class LentReactor {
 public:
  static constexpr Clock::duration kLooksEvery = std::chrono::milliseconds(20);

  // Over epoll, since what io_uring has pending ends with the thread that began it. Fails as the
  // kernel does.
  [[nodiscard]] static Result<std::unique_ptr<LentReactor>> create();
  ~LentReactor();
  LentReactor(const LentReactor&) = delete;
  LentReactor& operator=(const LentReactor&) = delete;

  [[nodiscard]] Reactor& reactor();
  // On the reactor's own thread, until stop(). `isIdle`: nothing is under way.
  void run(const std::function<bool()>& isIdle);

  // The rest is for any thread.
  void stop();
  // Has the own thread lend the reactor as soon as nothing is under way; passed over for a moment
  // after it was taken back.
  void ask();
  [[nodiscard]] bool isLent() const { return lent_.load(); }
  // Runs the reactor until `isDone`, `deadline` or takeBack(). False at once when it is not lent or
  // another thread runs it. `isDone` is asked on the calling thread.
  bool borrow(Clock::time_point deadline, const std::function<bool()>& isDone);
  // The own thread runs the reactor again; does not wait for it.
  void takeBack();

 private:
  explicit LentReactor(std::unique_ptr<EpollReactor> reactor);
  void lend(const std::function<bool()>& isIdle);
  // Waits until takeBack(), or until nobody borrows any more.
  void awaitReturn();

  const std::unique_ptr<EpollReactor> reactor_;
  std::mutex running_;  // held by the thread that runs the reactor
  std::atomic<bool> wanted_{false}, lent_{false}, stopping_{false};
  std::atomic<std::uint64_t> borrowed_{0};  // times that a borrower has come or gone
  std::atomic<Clock::time_point> askAgain_{Clock::time_point::min()};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool back_ = false;  // guarded by mutex_
};

}  // namespace hearth
