// A reactor: one thread that runs coroutines, completes their input/output and fires their timers.
// Two back ends answer the same interface: io_uring, and epoll with a few threads for file calls
// where io_uring is not allowed. Everything is for the reactor's own thread, except where "any
// thread" is said.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "reactor/idle_look.h"
#include "reactor/task.h"
#include "reactor/thread_pool.h"

namespace hearth {

class Reactor;

enum class OperationKind : std::uint8_t {
  kRead,            // pread(fd, address, length, offset)
  kWrite,           // pwrite
  kReadV,           // preadv; address = iovec array, length = count
  kWriteV,          // pwritev
  kSyncData,        // fdatasync
  kAccept,          // accept4(SOCK_NONBLOCK|SOCK_CLOEXEC)
  kConnect,         // address = sockaddr, length = its size
  kReceive,         // recv; flags = MSG_*
  kReceiveMessage,  // recvmsg; address = msghdr
  kSend,            // send; flags = MSG_*
  kSendMessage,     // sendmsg; address = msghdr
  kPoll,            // flags = POLLIN | POLLOUT; result = the events
};

// One request to the kernel. It lives in the frame of the awaiting coroutine, with everything it
// points to, until it completes; that is why a coroutine must not be destroyed while it waits.
struct Operation {
  OperationKind kind;
  int fd = -1;
  void* address = nullptr;
  std::uint32_t length = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::int32_t result =
      0;  // bytes, descriptor or events; -errno on failure; -ECANCELED when cancelled
  std::coroutine_handle<> awaiter;
};

// Carries out a read, write or sync of a file on the calling thread, which it blocks. Like
// Operation::result.
[[nodiscard]] std::int32_t callFile(const Operation& operation);

// A thing that another thread asked the reactor to run.
struct Posted {
  virtual void run() = 0;
  Posted* next = nullptr;

 protected:
  ~Posted() = default;
};

class Reactor {
 public:
  enum class Backend { kAutomatic, kIoUring, kEpoll };
  // kAutomatic: io_uring when the kernel allows it, else epoll.
  [[nodiscard]] static Result<std::unique_ptr<Reactor>> create(
      Backend backend = Backend::kAutomatic);
  virtual ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // "io_uring" or "epoll".
  [[nodiscard]] virtual const char* backendName() const = 0;

  // Runs on the calling thread until stop(); that thread becomes the reactor's.
  void run();
  // Any thread. run() returns after what is already queued; pending operations are not waited for:
  // close the gates first.
  void stop();
  // Runs until `task` has ended and returns its value. For tests and small programs: not while
  // run() runs.
  template <class T>
  T runUntilComplete(Task<T> task);

  // Any thread: `posted` runs on the reactor's thread, in order of arrival; it must live until
  // then. Never waits and never refuses, since who completes something can do neither: whoever lets
  // work in bounds how much of it there is at a time.
  void post(Posted& posted);
  // Any thread: the same for a function (allocates).
  void post(std::function<void()> function);
  // Any thread. The most that was found posted at one turn since the start.
  [[nodiscard]] std::size_t longestQueue() const {
    return longestQueue_.load(std::memory_order_relaxed);
  }
  // Any thread.
  [[nodiscard]] bool onThisThread() const;
  // Any thread. `co_await reactor.enter()` continues the coroutine on this reactor's thread: the
  // way from shard to shard. Immediate when already there.
  [[nodiscard]] auto enter();

  // Awaitables. Results as in Operation::result. Buffers stay valid until completion.
  [[nodiscard]] auto perform(Operation operation);
  [[nodiscard]] auto readAt(int fd, std::span<std::byte> into, std::uint64_t offset);
  [[nodiscard]] auto writeAt(int fd, std::span<const std::byte> from, std::uint64_t offset);
  [[nodiscard]] auto syncData(int fd);
  [[nodiscard]] auto accept(int fd);
  [[nodiscard]] auto connect(int fd, const sockaddr* address, socklen_t size);
  [[nodiscard]] auto receive(int fd, std::span<std::byte> into, int flags = 0);
  // With MSG_WAITALL it may end before all of it has come.
  [[nodiscard]] auto receiveMessage(int fd, msghdr* message, int flags = 0);
  [[nodiscard]] auto send(int fd, std::span<const std::byte> from, int flags = 0);
  [[nodiscard]] auto sendMessage(int fd, const msghdr* message, int flags = 0);
  [[nodiscard]] auto poll(int fd, std::uint32_t events);

  // Asks that a pending operation end early; it completes all the same, with -ECANCELED or its
  // result.
  virtual void cancel(Operation& operation) = 0;

  // Awaitable: continues after `delay` (at the next turn of the loop for zero).
  [[nodiscard]] auto sleep(Clock::duration delay);

  // Awaitable: runs `function` (which may block) on one of a few helper threads and continues here
  // with its result. For rare, quick calls: open, rename, mkdir, statvfs, name look-up.
  template <class F>
  [[nodiscard]] auto offload(F function);
  // Awaitable: the same on the threads of `pool`, which outlives the wait. For what takes long.
  template <class F>
  [[nodiscard]] auto offload(ThreadPool& pool, F function);

  // A timer that calls `expired` once on this thread; cancel by destroying it. Used by sleep(), by
  // Event with a deadline and by libcurl's timeout.
  class Timer {
   public:
    // `reactor` must remain live while this object is used.
    explicit Timer(Reactor& reactor) : reactor_(reactor) {}
    ~Timer() { cancel(); }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    void start(Clock::time_point when, std::function<void()> expired);
    void cancel();

   private:
    friend Reactor;
    Reactor& reactor_;
    std::multimap<Clock::time_point, Timer*>::iterator position_;
    bool armed_ = false;
    std::function<void()> expired_;
  };

  // On this thread. The time for which it did not get round to what was due, in all: because a turn
  // took long, or something else had the processor. Who judges others by their silence leaves it
  // out.
  [[nodiscard]] Clock::duration lateness() const;

  // On this thread. Something will probably come in a moment, such as the next request of a program
  // that asks for one thing after the other: before the reactor sleeps, it looks for a moment.
  void expectSoon() { idleLook_.expect(); }
  // Any thread.
  [[nodiscard]] IdleLook::Counts idleCounts() const { return idleLook_.counts(); }

  // Resumes `handle` behind what is ready now, on this thread: breaks recursion and lock-step. In
  // this turn of the loop or, after a few such rounds, in the next one.
  void resumeSoon(std::coroutine_handle<> handle);

 protected:
  Reactor();
  // Hands an operation to the kernel; may batch until wait().
  virtual void submit(Operation& operation) = 0;
  // Waits for completions until `deadline` or wake(), then resumes their awaiters.
  virtual void wait(Clock::time_point deadline) = 0;
  // Hands over what submit() has batched, and says whether a wait() would find a completion.
  [[nodiscard]] virtual bool arrived() = 0;
  // Any thread: makes wait() return.
  virtual void wake() = 0;

 public:
  // Any thread. Reads, writes and syncs of files occupy a few threads of the reactor, which a disk
  // that hangs may take from the others.
  [[nodiscard]] virtual bool blocksForFiles() const { return false; }

 protected:
  static void complete(Operation& operation, std::int32_t result) {
    operation.result = result;
    operation.awaiter.resume();
  }

 private:
  friend class Timer;
  struct Awaiter;
  struct EnterAwaiter;  // NOLINT(cppcoreguidelines-virtual-class-destructor): never deleted
  struct SleepAwaiter;
  template <class F>
  struct OffloadAwaiter;

  void turn();
  void runPosted();
  void runReady();
  void fireTimers();
  // Until something has come, `deadline`, or the end of the look. False: nothing has come.
  [[nodiscard]] bool look(Clock::time_point now, Clock::time_point deadline);
  [[nodiscard]] bool hasNews() const {
    return posted_.load(std::memory_order_seq_cst) != nullptr ||
           stopping_.load(std::memory_order_seq_cst);
  }

  std::atomic<Posted*> posted_{nullptr};
  std::atomic<std::size_t> longestQueue_{0};
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stopping_{false};
  std::vector<std::coroutine_handle<>> ready_;
  std::multimap<Clock::time_point, Timer*> timers_;
  Clock::time_point began_ = Clock::time_point::max();  // the turn; max: it waits
  Clock::duration lateness_{};
  IdleLook idleLook_;
  ThreadPool helpers_;  // the last member: the others live until its threads have ended
};

}  // namespace hearth

#include "reactor/reactor_inline.h"
