// Bytes that came in for readers and could not be kept, for want of room or because the cache's
// disk failed: they were read through. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "dataset/dataset.h"

namespace hearth {

class ThroughReads {
 public:
  static constexpr auto kPause = std::chrono::minutes(1);

  // Counts bytes of a file of `dataset`. Returns, once in kPause, the bytes since the last time, to
  // be logged.
  [[nodiscard]] std::optional<std::uint64_t> note(Dataset& dataset, std::uint64_t bytes,
                                                  Clock::time_point now) {
    dataset.throughBytes.fetch_add(bytes, std::memory_order_relaxed);
    dataset.throughAt.store(now, std::memory_order_relaxed);
    const std::uint64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    Clock::time_point due = logAt_.load(std::memory_order_relaxed);
    if (now < due || !logAt_.compare_exchange_strong(due, now + kPause)) return std::nullopt;
    return before + bytes - logged_.exchange(before + bytes);
  }
  // True: the dataset has read through within kPause.
  [[nodiscard]] static bool lately(const Dataset& dataset) {
    return dataset.throughBytes.load(std::memory_order_relaxed) != 0 &&
           Clock::now() - dataset.throughAt.load(std::memory_order_relaxed) < kPause;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> logged_{0};
  std::atomic<Clock::time_point> logAt_{Clock::time_point::min()};
};

}  // namespace hearth
