#include "reactor/lent_reactor.h"

#include <utility>

#include "reactor/epoll_backend.h"

namespace hearth {
namespace {

// Else threads that ask and threads that take back in turn would wake the own one each time.
constexpr Clock::duration kAskAgainAfter = std::chrono::milliseconds(100);

}  // namespace

LentReactor::LentReactor(std::unique_ptr<EpollReactor> reactor) : reactor_(std::move(reactor)) {}
LentReactor::~LentReactor() = default;

Result<std::unique_ptr<LentReactor>> LentReactor::create() {
  Result<std::unique_ptr<EpollReactor>> reactor = EpollReactor::create();
  if (!reactor.ok()) return reactor.error();
  return std::unique_ptr<LentReactor>(new LentReactor(std::move(*reactor)));
}

Reactor& LentReactor::reactor() { return *reactor_; }

void LentReactor::run(const std::function<bool()>& isIdle) {
  std::unique_lock running(running_);
  const auto mayLend = [&] { return stopping_.load() || (wanted_.load() && isIdle()); };
  while (!stopping_.load()) {
    reactor_->runUntil(Clock::time_point::max(), mayLend);
    if (stopping_.load()) break;
    running.unlock();
    lend(isIdle);
    running.lock();
  }
  reactor_->stop();
  reactor_->run();  // what is posted
}

void LentReactor::lend(const std::function<bool()>& isIdle) {
  wanted_ = false;
  lent_ = true;
  // A thread that posted before `lent_` was set relies on this thread to run its work.
  if (isIdle()) awaitReturn();
  lent_ = false;
  askAgain_ = Clock::now() + kAskAgainAfter;
  reactor_->post([] {});  // a borrower who waits leaves
}

void LentReactor::awaitReturn() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = borrowed_.load();
  while (!changed_.wait_for(lock, kLooksEvery, [this] { return back_; })) {
    const std::uint64_t now = borrowed_.load();
    const bool running = now % 2 != 0;
    if (now == seen && !running) break;
    seen = now;
  }
  back_ = false;
}

void LentReactor::stop() {
  stopping_ = true;
  takeBack();
  reactor_->stop();  // no post, which nobody would run where the own thread has ended already
}

void LentReactor::ask() {
  if (lent_.load() || wanted_.load() || Clock::now() < askAgain_.load()) return;
  wanted_ = true;
}

bool LentReactor::borrow(Clock::time_point deadline, const std::function<bool()>& isDone) {
  if (!lent_.load()) return false;
  const std::unique_lock running(running_, std::try_to_lock);
  if (!running.owns_lock() || !lent_.load()) return false;
  ++borrowed_;
  reactor_->runUntil(
      deadline, [&] { return !lent_.load() || isDone(); }, true);
  ++borrowed_;
  return true;
}

void LentReactor::takeBack() {
  wanted_ = false;
  if (!lent_.load()) return;
  const std::lock_guard lock(mutex_);
  back_ = true;
  changed_.notify_one();
}

}  // namespace hearth
