// Numbers of blocks of one file that were not what their checksums say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

class BadBlocks {
 public:
  void add(std::uint64_t block) { add(block, block + 1); }
  // Blocks [first, end).
  void add(std::uint64_t first, std::uint64_t end);
  // Some of the blocks [first, end) are among them.
  [[nodiscard]] bool overlaps(std::uint64_t first, std::uint64_t end) const;
  // Each block counts once, however often it was added.
  [[nodiscard]] std::uint64_t count() const;
  // "block 5", or "blocks 5, 144-145 and 7 more"; empty without blocks.
  [[nodiscard]] std::string text() const;

 private:
  struct Range {
    std::uint64_t first, end;
  };
  // In order and apart from one another.
  [[nodiscard]] std::vector<Range> ordered() const;

  std::vector<Range> ranges_;  // as they were added
};

}  // namespace hearth
