// Sees from the reads of one file which bytes will be wanted next. Not thread-safe; pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace hearth {

struct ReadAheadOptions {
  // The first window; each next one is twice as large, up to maxWindow. Bytes.
  std::uint64_t firstWindow = 4ULL << 20;
  std::uint64_t maxWindow = 64ULL << 20;
  // So many bytes read in order, and the rest of the file is wanted. 0: never.
  std::uint64_t wholeFileAfter = 8ULL << 20;
  // So far ahead of a reader bytes that are on the local disk come into memory. 0: never.
  std::uint64_t loadWindow = 32ULL << 20;
};

class ReadAhead {
 public:
  struct Hint {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool operator==(const Hint&) const = default;
  };

  // The bytes that a read calls for: far ahead, bytes to make resident; close ahead, resident bytes
  // to bring into memory.
  struct Wanted {
    std::optional<Hint> fetch, load;
  };

  // Notes a read of a file of `size` bytes.
  [[nodiscard]] Wanted observe(std::uint64_t offset, std::uint32_t length, std::uint64_t size,
                               const ReadAheadOptions& options);

 private:
  // One reader that goes through the file. The kernel's own read-ahead sends several requests at
  // once, and two threads take them in any order, so a little disorder still counts as "in order".
  struct Stream {
    std::uint64_t begin = 0;   // where it was seen first
    std::uint64_t next = 0;    // the end of its furthest read
    std::uint64_t run = 0;     // bytes read in order
    std::uint64_t hinted = 0;  // the end of what has been asked for
    std::uint64_t window = 0;
    std::uint64_t loaded = 0;  // as `hinted`, of what is to come into memory
    std::uint64_t used = 0;    // for replacing the one that has been silent longest; 0: free
  };

  Stream& streamOf(std::uint64_t offset);
  [[nodiscard]] std::optional<Hint> toFetch(Stream& stream, std::uint64_t size,
                                            const ReadAheadOptions& options);
  [[nodiscard]] static std::optional<Hint> toLoad(Stream& stream, std::uint64_t size,
                                                  const ReadAheadOptions& options);

  std::array<Stream, 4> streams_;
  std::uint64_t clock_ = 0;
  bool whole_ = false;
};

}  // namespace hearth
