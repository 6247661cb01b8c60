#include "client/driver_calls.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "reactor/synchronization.h"

namespace hearth::gd2fs {
namespace {

Error hangs() {
  return {ErrorCode::kDeadlineExceeded, "a call of the GPU's driver has not returned in time"};
}

}  // namespace

// Shared by the thread that runs the call and whoever waits for its end.
struct DriverCalls::Call {
  std::function<Status()> function;  // of the running thread
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Status> result;
  std::function<void()> ended;  // called once, with the mutex held; empty: nobody waits
  bool isGivenUp = false;

  // Whether it had no result yet: nobody waits for one from now on.
  bool giveUp() {
    const std::lock_guard lock(mutex);
    ended = {};
    return isGivenUp = !result;
  }
};

class DriverCalls::Threads : public std::enable_shared_from_this<DriverCalls::Threads> {
 public:
  // False: too many hang.
  bool begin(const std::shared_ptr<Call>& call) {
    const std::lock_guard lock(mutex_);
    if (hanging_ >= kMostHanging) return false;
    work_.push_back(call);
    if (idle_ < work_.size()) {
      ++idle_;
      const BlockedSignals blocked;
      std::thread([self = shared_from_this()] { self->loop(); }).detach();
    }
    changed_.notify_one();
    return true;
  }
  void giveUp(Call& call) {
    const std::lock_guard lock(mutex_);
    if (call.giveUp()) ++hanging_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }

 private:
  void loop() {
    pthread_setname_np(pthread_self(), "gd2fs-driver");
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !work_.empty(); });
      if (work_.empty()) return;
      --idle_;
      const std::shared_ptr<Call> call = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      Status result = call->function();
      call->function = {};
      lock.lock();
      finish(*call, std::move(result));
      ++idle_;
    }
  }
  void finish(Call& call, Status result) {
    const std::lock_guard lock(call.mutex);
    call.result.emplace(std::move(result));
    if (call.isGivenUp) --hanging_;
    if (call.ended) call.ended();
    call.changed.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> work_;
  std::size_t idle_ = 0;  // threads that are, or will be, without work
  int hanging_ = 0;
  bool ending_ = false;
};

DriverCalls::DriverCalls() : threads_(std::make_shared<Threads>()) {}
DriverCalls::~DriverCalls() { threads_->end(); }

Task<Status> DriverCalls::run(Reactor& reactor, Clock::time_point deadline,
                              std::function<Status()> function) {
  // The caller's object may go while a call hangs.
  const std::shared_ptr<Threads> threads = threads_;
  const auto call = std::make_shared<Call>();
  const auto returned = std::make_shared<Event>(reactor);
  call->function = std::move(function);
  call->ended = [&reactor, returned] { reactor.post([returned] { returned->set(); }); };
  if (!threads->begin(call))
    co_return Error{ErrorCode::kUnavailable, "calls of the GPU's driver hang"};
  co_await returned->waitUntil(deadline);
  if (!returned->isSet()) threads->giveUp(*call);
  const std::lock_guard lock(call->mutex);
  co_return call->result ? *call->result : Status(hangs());
}

Status DriverCalls::runHere(Clock::time_point deadline, std::function<Status()> function) {
  const auto call = std::make_shared<Call>();
  call->function = std::move(function);
  if (!threads_->begin(call)) return Error{ErrorCode::kUnavailable, "calls of the driver hang"};
  {
    std::unique_lock lock(call->mutex);
    call->changed.wait_until(lock, deadline, [&] { return call->result.has_value(); });
  }
  threads_->giveUp(*call);
  const std::lock_guard lock(call->mutex);
  return call->result ? *call->result : Status(hangs());
}

}  // namespace hearth::gd2fs
