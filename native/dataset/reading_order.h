// Predicts from the look-ups of a dataset's entries which ones will be wanted next: readers that go
// through a folder's files do so in the order of the manifest. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>

namespace hearth {

class ReadingOrder {
 public:
  // Entries [first, end); none when they are the same.
  struct Range {
    std::uint32_t first = 0, end = 0;
  };

  // `entry` is looked up. What is to be asked for ahead of its reader: nothing for one that reads
  // here and there, and for one that goes on in order twice as much each time, up to kMaxAhead;
  // then nothing until half of that is used.
  [[nodiscard]] Range next(std::uint32_t entry);

  static constexpr std::uint32_t kMaxAhead = 256;

 private:
  // One reader, or several that go the same way.
  struct Sequence {
    std::uint32_t at = 0;      // the last entry that was looked up
    std::uint32_t asked = 0;   // up to here it was asked for
    std::uint32_t window = 0;  // 0: free
    std::uint64_t used = 0;
  };

  std::array<Sequence, 8> sequences_;
  std::uint64_t turn_ = 0;
};

}  // namespace hearth
