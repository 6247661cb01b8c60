// Reads that wait for bytes, so that they can be interrupted and drained. The source's answer, a
// signal, or the end of the session takes a read out and answers it. The source gets a bounded
// number of reads; the others wait for room here, where a signal finds them too. A thread that
// reads requests is never held back, because the kernel sends signals the same way. Any thread.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace hearth {

class ParkedReads {
 public:
  enum class Parked { kAsk, kQueued, kTooMany, kInterrupted, kClosed };
  // Asks the source for a read's bytes, outside our lock.
  using Ask = std::function<void()>;

  // So many wait for room, for each one that may be asked of the source.
  static constexpr std::size_t kQueuedPerAsked = 16;

  // `limit`: so many may be asked of the source and not answered by it, whether or not a signal has
  // ended their reader's wait.
  explicit ParkedReads(std::size_t limit) : limit_(limit) {}

  // kAsk: the caller calls `ask` now. kQueued: askQueued() does so when there is room. Else it does
  // not wait here: kInterrupted, its signal was faster than we (answer EINTR), kTooMany, kClosed.
  [[nodiscard]] Parked park(std::uint64_t unique, const Ask& ask);
  // After the source has answered, and take(): asks it for those that wait for room. Whoever is
  // answered at once may call it from there.
  void askQueued();
  // The source has answered. True for the one caller that is to answer the kernel; it calls
  // answered() afterwards.
  [[nodiscard]] bool take(std::uint64_t unique);
  void answered();
  // A signal for `unique`: true when it was parked (the caller answers it, then answered()). Else
  // it is remembered for a while, because the request may be on its way here in another thread.
  [[nodiscard]] bool interrupt(std::uint64_t unique);

  // Waits until nothing is parked or `limit` is over; later park() gives kClosed. Returns what is
  // left, which no other thread will answer. None is answering when it returns.
  [[nodiscard]] std::vector<std::uint64_t> close(std::chrono::milliseconds limit);
  // True: the read is parked, and neither a signal nor the end of the session took it out.
  [[nodiscard]] bool waits(std::uint64_t unique) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool full() const;

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_set<std::uint64_t> parked_;  // asked of the source or queued
  std::unordered_set<std::uint64_t> asked_;   // of the source
  std::map<std::uint64_t, Ask> queued_;       // the kernel's oldest first
  bool asking_ = false;                       // in askQueued()
  std::size_t answering_ = 0;
  bool closed_ = false;
  // Signals whose request has not been seen parked; the oldest is overwritten. Uniques are not
  // reused.
  std::array<std::uint64_t, 64> early_{};
  std::size_t nextEarly_ = 0;
};

}  // namespace hearth
