// Keeps the reason for which the disk of a cache directory takes no writes. Any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/result.h"

namespace hearth {

class DiskHealth {
 public:
  // The disk failed, for another reason than want of room.
  void failed(const Error& why) {
    const std::lock_guard lock(mutex_);
    why_ = why.message;
    failing_ = true;
  }
  void works() {
    const std::lock_guard lock(mutex_);
    why_.clear();
    failing_ = false;
  }
  [[nodiscard]] bool failing() const { return failing_.load(std::memory_order_acquire); }
  // Why it fails; empty: it works.
  [[nodiscard]] std::string failure() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  mutable std::mutex mutex_;  // guards why_
  std::string why_;
  std::atomic<bool> failing_{false};
};

}  // namespace hearth
