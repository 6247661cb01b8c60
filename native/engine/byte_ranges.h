// A set of bytes of a file, as ranges that neither touch nor overlap. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace hearth {

class ByteRanges {
 public:
  // [begin, end), with begin <= end, here as below.
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
    while (next != ranges_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      bytes_ -= next->second - next->first;
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, begin, end);
    bytes_ += end - begin;
  }
  void remove(std::uint64_t begin, std::uint64_t end) {
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second > begin) --next;
    while (next != ranges_.end() && next->first < end) {
      const auto [first, last] = *next;
      bytes_ -= last - first;
      next = ranges_.erase(next);
      if (first < begin) add(first, begin);
      if (last > end) add(end, last);
    }
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Behind the last byte; 0 when there is none.
  [[nodiscard]] std::uint64_t end() const { return ranges_.empty() ? 0 : ranges_.rbegin()->second; }
  // Begins and ends, in order.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& ranges() const { return ranges_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;
  std::uint64_t bytes_ = 0;
};

}  // namespace hearth
