#include "reactor/reactor.h"

#include <algorithm>
#include <utility>

#include "reactor/epoll_backend.h"
#include "reactor/uring_backend.h"

namespace hearth {
namespace {

thread_local const Reactor* currentReactor = nullptr;

// A turn that takes so long is not late.
constexpr auto kPunctual = std::chrono::milliseconds(10);
// How long wait() may sleep when no timer is due: only a bound for lost wake-ups, none is known.
constexpr auto kLongestSleep = std::chrono::seconds(10);

// Between two tries of a look; after more another thread had the core.
constexpr auto kFreeCore = std::chrono::microseconds(50);

constexpr std::size_t kHelperThreads = 4;

// Of coroutines that make one another ready, until input, output and timers have their turn again.
constexpr int kReadyRounds = 16;

// Not sched_yield(): a thread of the lowest priority then has the core for some milliseconds.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct PostedFunction final : Posted {
  explicit PostedFunction(std::function<void()> work) : function(std::move(work)) {}
  std::function<void()> function;
  void run() override {
    const std::unique_ptr<PostedFunction> self(this);
    function();
  }
};

}  // namespace

Reactor::Reactor() : helpers_(ThreadPool::Options{.threads = kHelperThreads}) {}
Reactor::~Reactor() = default;

Result<std::unique_ptr<Reactor>> Reactor::create(Backend backend) {
  if (backend != Backend::kEpoll) {
    auto uring = UringReactor::create();
    if (uring.ok()) return std::unique_ptr<Reactor>(std::move(*uring));
    if (backend == Backend::kIoUring) return uring.error();
  }
  Result<std::unique_ptr<EpollReactor>> epoll = EpollReactor::create();
  if (!epoll.ok()) return epoll.error();
  return std::unique_ptr<Reactor>(std::move(*epoll));
}

bool Reactor::onThisThread() const { return currentReactor == this; }

void Reactor::post(Posted& posted) {
  Posted* head = posted_.load(std::memory_order_relaxed);
  do {
    posted.next = head;
  } while (!posted_.compare_exchange_weak(head, &posted, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
  // seq_cst on both: either we see that the reactor sleeps, or it sees what we posted before it
  // does.
  if (sleeping_.exchange(false, std::memory_order_seq_cst)) wake();
}

void Reactor::post(std::function<void()> function) {
  post(*new PostedFunction(std::move(function)));
}

void Reactor::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  if (sleeping_.exchange(false, std::memory_order_seq_cst)) wake();
}

void Reactor::run() {
  const Reactor* const outer = std::exchange(currentReactor, this);
  while (!stopping_.load(std::memory_order_acquire)) turn();
  runPosted();
  runReady();
  stopping_.store(false, std::memory_order_release);
  currentReactor = outer;
}

void Reactor::turn() {
  began_ = Clock::now();
  runPosted();
  fireTimers();
  runReady();
  const Clock::time_point done = Clock::now();
  Clock::duration late = done - std::exchange(began_, Clock::time_point::max());
  Clock::time_point deadline = done;
  if (ready_.empty()) {
    deadline += kLongestSleep;
    if (!timers_.empty()) deadline = std::min(deadline, timers_.begin()->first);
  }
  // Nobody has to wake a reactor that looks.
  const bool found = deadline > done && look(done, deadline);
  sleeping_.store(true, std::memory_order_seq_cst);
  if (found || hasNews()) {
    deadline = Clock::time_point::min();
  } else if (deadline > done) {
    idleLook_.slept();
  }
  wait(deadline);
  sleeping_.store(false, std::memory_order_seq_cst);
  // wait() has resumed completed operations, too.
  const Clock::time_point woken = Clock::now();
  late += woken - std::clamp(deadline, done, woken);
  if (late > kPunctual) lateness_ += late;
}

bool Reactor::look(Clock::time_point now, Clock::time_point deadline) {
  if (!idleLook_.isWanted()) return false;
  if (hasNews() || arrived()) return true;
  idleLook_.begin();
  deadline = std::min(deadline, now + IdleLook::kLooksFor);
  IdleLook::End end = IdleLook::End::kInVain;
  while (now < deadline && end == IdleLook::End::kInVain) {
    relax();
    const Clock::time_point before = std::exchange(now, Clock::now());
    if (now - before > kFreeCore) {
      end = IdleLook::End::kCoreWanted;
    } else if (hasNews() || arrived()) {
      end = IdleLook::End::kCame;
    }
  }
  idleLook_.ended(end);
  return end == IdleLook::End::kCame;
}

Clock::duration Reactor::lateness() const {
  const Clock::duration here = Clock::now() - std::min(began_, Clock::now());
  return here > kPunctual ? lateness_ + here : lateness_;
}

void Reactor::runPosted() {
  Posted* newest = posted_.exchange(nullptr, std::memory_order_acquire);
  Posted* oldest = nullptr;
  std::size_t length = 0;
  while (newest != nullptr) {
    ++length;
    Posted* const next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  if (length > longestQueue()) longestQueue_.store(length, std::memory_order_relaxed);
  while (oldest != nullptr) {
    Posted* const next = oldest->next;  // run() may destroy it
    oldest->run();
    oldest = next;
  }
}

void Reactor::resumeSoon(std::coroutine_handle<> handle) { ready_.push_back(handle); }

// Coroutines made ready here go on in the same turn: else each step from an answer to the next
// request costs a turn, and each submission between them a system call of its own.
void Reactor::runReady() {
  for (int round = 0; round < kReadyRounds && !ready_.empty(); ++round) {
    std::vector<std::coroutine_handle<>> now;
    now.swap(ready_);
    for (const std::coroutine_handle<> handle : now) handle.resume();
  }
}

void Reactor::fireTimers() {
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Timer* const timer = timers_.begin()->second;
    timer->cancel();
    const auto expired = std::move(timer->expired_);
    expired();  // may destroy the timer
  }
}

void Reactor::Timer::start(Clock::time_point when, std::function<void()> expired) {
  cancel();
  expired_ = std::move(expired);
  position_ = reactor_.timers_.emplace(when, this);
  armed_ = true;
}

void Reactor::Timer::cancel() {
  if (!std::exchange(armed_, false)) return;
  reactor_.timers_.erase(position_);
}

}  // namespace hearth
