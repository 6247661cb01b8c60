// The room of one cache directory: a hard budget of allocated bytes and a floor of free space that
// the file system must keep. Bytes are reserved before they are written, so that neither is
// exceeded even for a moment, whatever the number of shards that write. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "reactor/reactor.h"

namespace hearth {

// Space is allocated in units of this size by the file systems that we know.
inline constexpr std::uint64_t kAllocationBytes = 4096;
[[nodiscard]] constexpr std::uint64_t allocatedBytes(std::uint64_t bytes) {
  return (bytes + kAllocationBytes - 1) / kAllocationBytes * kAllocationBytes;
}

class SpaceBudget {
 public:
  // How old, in time or in bytes written since, the measured free space may be.
  static constexpr Clock::duration kMeasureEvery = std::chrono::milliseconds(200);
  static constexpr std::uint64_t kMeasureBytes = std::uint64_t{256} << 20;

  SpaceBudget(std::uint64_t budgetBytes, std::uint64_t freeFloorBytes)
      : budget_(budgetBytes), floor_(freeFloorBytes) {}

  enum class Answer {
    kReserved,
    kOverBudget,
    kBelowFloor,
    kMeasureFirst,  // call measuring(), statvfs, measured(), then again
  };
  [[nodiscard]] Answer reserve(std::uint64_t bytes);
  // A reservation ends in one of two ways: its bytes are on the disk, or they never will be.
  void written(std::uint64_t bytes);
  void cancel(std::uint64_t bytes);
  // Bytes found on the disk at start, and bytes freed by an eviction.
  void adopt(std::uint64_t bytes);
  void release(std::uint64_t bytes);

  // Around a statvfs: what is written between the two is subtracted from its answer.
  [[nodiscard]] std::uint64_t measuring() const;
  void measured(std::uint64_t token, std::uint64_t freeBytes);
  // A write has met ENOSPC: the next reservation measures first.
  void remeasure();

  // Bytes that must go before `bytes` can be reserved, by what is known now.
  [[nodiscard]] std::uint64_t deficit(std::uint64_t bytes) const;

  // Room that open files are going to ask for: new keys go where the most is left after that.
  void promise(std::uint64_t bytes);
  void fulfil(std::uint64_t bytes);
  [[nodiscard]] std::int64_t expectedFree() const;

  [[nodiscard]] std::uint64_t budgetBytes() const { return budget_; }
  [[nodiscard]] std::uint64_t freeFloorBytes() const { return floor_; }
  [[nodiscard]] std::uint64_t usedBytes() const;
  [[nodiscard]] std::uint64_t freeBytes() const;

 private:
  [[nodiscard]] std::uint64_t freeNow() const;  // under the mutex: measured, less what is under way

  const std::uint64_t budget_;
  const std::uint64_t floor_;
  mutable std::mutex mutex_;    // guards all below
  std::uint64_t used_ = 0;      // on the disk or reserved
  std::uint64_t underWay_ = 0;  // reserved, not yet written
  std::uint64_t writtenTotal_ = 0;
  std::uint64_t writtenAtMeasure_ = 0;
  std::uint64_t measuredFree_ = 0;
  Clock::time_point measuredAt_ = Clock::time_point::min();
  std::uint64_t promised_ = 0;
};

}  // namespace hearth
