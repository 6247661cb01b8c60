// One request of a program, from its submission to its completion; and the queue of completions.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/gpu_memory.h"
#include "client/include/xfer/gd2fs.h"
#include "client/memory_uses.h"
#include "memory/memory_vector.h"
#include "reactor/lent_reactor.h"

namespace hearth::gd2fs {

// Where a request goes when it has ended. Any thread.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // 0, and push() follows; or a negative errno.
  [[nodiscard]] virtual int admit() = 0;
  // Takes the only element, and needs no memory. Ends `uses` behind the completion and before
  // anybody takes it: a program that has the completion may let go of the memory, and one that
  // waits for the end of all uses finds the completion.
  virtual void push(std::list<xfer_gd2fs_completion> completion,
                    std::vector<MemoryUses::Use> uses) noexcept = 0;
};

// Of a context. Any thread.
class CompletionQueue final : public CompletionSink {
 public:
  // Requests that may be in flight or wait to be taken at a time.
  static constexpr std::size_t kMost = 65'536;

  // -EAGAIN when there are too many requests, -EBADF when the queue is closing.
  [[nodiscard]] int admit() override;
  void push(std::list<xfer_gd2fs_completion> completion,
            std::vector<MemoryUses::Use> uses) noexcept override;
  // The number taken; 0 when none came in time. -EBADF when the queue is closing and nothing can
  // come any more. A negative timeout waits for ever. `lent`, which may be null, is what a thread
  // that waits runs where it can, instead of sleeping until another thread has.
  [[nodiscard]] int take(std::span<xfer_gd2fs_completion> into, int timeoutMs,
                         LentReactor* lent = nullptr);
  // Counts a thread that waits for requests otherwise, as long as it lives, as one in take().
  class Waiting {
   public:
    explicit Waiting(CompletionQueue& queue) : waiting_(queue.waiting_) { ++waiting_; }
    ~Waiting() { --waiting_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::atomic<std::size_t>& waiting_;
  };
  // Threads in take().
  [[nodiscard]] std::size_t waiting() const { return waiting_.load(); }
  // Nothing is admitted any more; waiters end when all has been taken.
  void close();
  // It was closed, and all has been taken.
  [[nodiscard]] bool isOver();

 private:
  // With the mutex held: there is something to take, or there never will be.
  [[nodiscard]] bool hasEnded() const { return !done_.empty() || (closing_ && inFlight_ == 0); }
  // Until hasEnded() or the deadline; false: at once, as the reactor is not to be had.
  bool runWhile(std::unique_lock<std::mutex>& lock, LentReactor& lent, Clock::time_point deadline);

  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LentReactor*> running_;  // by threads in take()
  std::list<xfer_gd2fs_completion> done_;
  std::size_t inFlight_ = 0;
  bool closing_ = false;
};

// Memory that the program has registered.
struct IoMemory {
  const std::shared_ptr<MemoryRegion> region;
  const std::shared_ptr<GpuMemory> gpu;  // null: of the host
  const std::shared_ptr<MemoryUses> uses = std::make_shared<MemoryUses>();
};

// Shared by all that work on it and, as the owner of the slices, by all that may write into its
// memory: its destructor pushes the completion, so that there is one and nothing is written after
// it. Any thread, once it is admitted.
class Request {
 public:
  Request(std::shared_ptr<CompletionSink> sink, void* id, Clock::time_point deadline)
      : deadline(deadline), sink_(std::move(sink)) {
    completion_.front().id = id;
  }
  ~Request();
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  // Before others work on it: as CompletionSink::admit(). Without it there is no completion.
  [[nodiscard]] int admit() {
    const int refused = sink_->admit();
    isAdmitted_ = refused == 0;
    return refused;
  }
  void add(std::uint64_t bytes) { bytes_ += bytes; }
  // The first status stays.
  void fail(std::uint16_t status) {
    std::uint16_t none = 0;
    status_.compare_exchange_strong(none, status);
  }
  [[nodiscard]] bool failed() const { return status_.load() != 0; }
  // Not deregistered before the completion.
  void use(std::vector<std::shared_ptr<IoMemory>> memory);
  // The memory of a region in it.
  [[nodiscard]] const IoMemory& memoryOf(const MemoryRegion& region) const;
  // A call that was given up may write into that memory after the completion, which says so.
  void leaveUnquiescent() { isQuiescent_ = false; }

  const Clock::time_point deadline;

 private:
  const std::shared_ptr<CompletionSink> sink_;
  bool isAdmitted_ = false;
  std::list<xfer_gd2fs_completion> completion_{1};
  std::vector<MemoryUses::Use> uses_;
  std::vector<std::shared_ptr<IoMemory>> memory_;
  std::atomic<bool> isQuiescent_{true};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint16_t> status_{0};
};

}  // namespace hearth::gd2fs
