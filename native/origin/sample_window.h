// The last samples of something that is measured, and what they say: a median or another quantile.
// Pure: not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace hearth {

class SampleWindow {
 public:
  // `size` > 0: how many are kept; the oldest goes first.
  explicit SampleWindow(std::size_t size) : size_(size) {}

  void add(double sample) {
    if (samples_.size() < size_) {
      samples_.push_back(sample);
    } else {
      samples_[next_] = sample;
    }
    next_ = (next_ + 1) % size_;
  }
  [[nodiscard]] std::size_t count() const { return samples_.size(); }
  // The sample at `part` (0 to 1) of the way from the smallest to the largest by rank; 0.5 is the
  // median. There must be one.
  [[nodiscard]] double quantile(double part) const {
    std::vector<double> sorted = samples_;
    const auto rank = std::lround(part * static_cast<double>(sorted.size() - 1));
    std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.end());
    return sorted[static_cast<std::size_t>(rank)];
  }

 private:
  const std::size_t size_;
  std::size_t next_ = 0;
  std::vector<double> samples_;
};

}  // namespace hearth
