// Read-ahead hints of one file on their way to its shard: few, since each is only a hint. Any
// thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace hearth {

class HintQueue {
 public:
  // Further hints are dropped.
  static constexpr std::size_t kMax = 8;
  struct Hint {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };

  // True for the one caller that must send for the hints.
  [[nodiscard]] bool add(Hint hint) {
    const std::lock_guard lock(mutex_);
    if (hints_.size() < kMax) hints_.push_back(hint);
    return !std::exchange(sent_, true);
  }
  [[nodiscard]] std::vector<Hint> take() {
    const std::lock_guard lock(mutex_);
    sent_ = false;
    return std::exchange(hints_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Hint> hints_;
  bool sent_ = false;
};

}  // namespace hearth
