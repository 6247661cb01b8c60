// Reads that wait for bytes, so that they can be interrupted and drained. A read is answered by
// whoever takes it out: the source's answer, a signal, or the end of the session. Any thread.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace hearth {

class ParkedReads {
 public:
  enum class Parked { kYes, kInterrupted, kClosed };

  // `limit`: so many may be asked of the source and not answered by it, whether or not a signal has
  // ended their reader's wait; then waitForRoom() holds the session's threads back.
  explicit ParkedReads(std::size_t limit) : limit_(limit) {}

  // Before the source is asked. kInterrupted: its signal was faster than we; answer EINTR instead.
  [[nodiscard]] Parked park(std::uint64_t unique);
  // The source has answered. True for the one caller that is to answer the kernel; it calls
  // answered() afterwards.
  [[nodiscard]] bool take(std::uint64_t unique);
  void answered();
  // A signal for `unique`: true when it was parked (the caller answers it, then answered()). Else
  // it is remembered for a while, because the request may be on its way here in another thread.
  [[nodiscard]] bool interrupt(std::uint64_t unique);

  // Returns when there is room, or after close().
  void waitForRoom();
  // Waits until nothing is parked or `limit` is over; later park() gives kClosed. Returns what is
  // left, which nobody else will answer. Nobody is answering when it returns.
  [[nodiscard]] std::vector<std::uint64_t> close(std::chrono::milliseconds limit);
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool full() const;

 private:
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_set<std::uint64_t> parked_;
  std::unordered_set<std::uint64_t> asked_;  // of the source
  std::size_t answering_ = 0;
  bool closed_ = false;
  // Signals whose request has not been seen parked; the oldest is overwritten. Uniques are not
  // reused.
  std::array<std::uint64_t, 64> early_{};
  std::size_t nextEarly_ = 0;
};

}  // namespace hearth
