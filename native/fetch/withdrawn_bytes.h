// Contents whose bytes the digest of the whole file found wrong after readers may have got them.
// The kernel has to read again what its page cache keeps of them. Any thread; bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/content_key.h"

namespace hearth {

class WithdrawnBytes {
 public:
  // Beyond this many the object forgets which contents they were, and all contents count.
  static constexpr std::size_t kMax = 65'536;

  // Call once none of the wrong bytes is given out any more.
  void note(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t mark = marks_.load(std::memory_order_relaxed) + 1;
    if (last_.size() >= kMax) {
      last_.clear();
      ofAll_ = mark;
    }
    last_[key] = mark;
    marks_.store(mark, std::memory_order_release);
  }
  // False: no content was withdrawn, and all marks are 0.
  [[nodiscard]] bool any() const { return marks_.load(std::memory_order_acquire) != 0; }
  // Changes after each note() of this content, and sometimes after one of another.
  [[nodiscard]] std::uint64_t mark(const ContentKey& key) const {
    if (!any()) return 0;
    const std::lock_guard lock(mutex_);
    const auto found = last_.find(key);
    return found == last_.end() ? ofAll_ : found->second;
  }

 private:
  std::atomic<std::uint64_t> marks_{0};
  mutable std::mutex mutex_;
  std::uint64_t ofAll_ = 0;
  std::unordered_map<ContentKey, std::uint64_t, ContentKeyHash> last_;
};

}  // namespace hearth
