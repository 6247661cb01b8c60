// Which chunks of one file readers were given before it was compared with its digest. Until the
// last of them is given no reader has all of a mixture of two states of the origin's object: that
// one waits for the comparison, and no other needs to. Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace hearth {

class GivenChunks {
 public:
  // Notes chunks [first, end) of the file's `count`. False, and they are not noted, when all others
  // are given already.
  [[nodiscard]] bool give(std::uint32_t first, std::uint32_t end, std::uint32_t count) {
    const std::lock_guard lock(mutex_);
    std::uint32_t others = sum_;
    for (std::uint32_t chunk = first; chunk < end; ++chunk) others -= given(chunk) ? 1 : 0;
    if (others == count - (end - first)) return false;
    mark(first, end);
    return true;
  }
  // The same whatever else was given.
  void note(std::uint32_t first, std::uint32_t end) {
    const std::lock_guard lock(mutex_);
    mark(first, end);
  }
  // None is: the bytes that were are no longer those of the file.
  void clear() {
    const std::lock_guard lock(mutex_);
    given_.clear();
    sum_ = 0;
  }

 private:
  [[nodiscard]] bool given(std::uint32_t chunk) const {
    return chunk < given_.size() && given_[chunk];
  }
  void mark(std::uint32_t first, std::uint32_t end) {
    if (given_.size() < end) given_.resize(end);
    for (std::uint32_t chunk = first; chunk < end; ++chunk) {
      sum_ += given_[chunk] ? 0 : 1;
      given_[chunk] = true;
    }
  }

  std::mutex mutex_;
  std::vector<bool> given_;  // none of those behind its end
  std::uint32_t sum_ = 0;
};

}  // namespace hearth
