// Contents of which readers may have been given bytes that were found wrong afterwards: by the
// digest of a whole file. What a kernel keeps of those in its page cache has to be read again. Any
// thread; bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/content_key.h"

namespace hearth {

class WithdrawnBytes {
 public:
  // Afterwards it is not known any more which they were, and all contents count.
  static constexpr std::size_t kMax = 65'536;

  // Called when none of the wrong bytes is given out any more.
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
  // Whether there are any: else the mark of all contents is 0.
  [[nodiscard]] bool any() const { return marks_.load(std::memory_order_acquire) != 0; }
  // Another one after each note() of this content, sometimes after that of another.
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
