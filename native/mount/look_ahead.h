// Decides how far ahead of one reader files are expected, as it goes through a folder in the order
// of the manifest. A LookAhead belongs to the reader and not to a file: each file on the way
// advances it by what earlier files have left, so that nothing is expected twice. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "fetch/file_fetch.h"

namespace hearth {

class LookAhead {
 public:
  // Most bytes and files ahead of the reader at any time.
  static constexpr std::uint64_t kBytes = 64u << 20;
  static constexpr std::size_t kFiles = 64;
  // Files ahead of a new reader of small files; the number doubles at each file that the reader
  // comes to.
  static constexpr std::size_t kFirstFiles = 4;

  explicit LookAhead(std::size_t files) : files_(files) {}

  // The first `length` bytes of a file.
  struct Part {
    FileReference file;
    std::uint64_t length = 0;
  };

  // Entries, of which nothing is to be expected, that one call of reach() passes over.
  static constexpr std::uint32_t kMaxPassed = 4096;

  // The reader is at the file of `fetch`. Returns the parts at which it is to be expected from now
  // on, in order; passes over files of which `here` is true. Nothing for a file that the reader has
  // been at already.
  [[nodiscard]] std::vector<Part> reach(const std::shared_ptr<FileFetch>& fetch,
                                        const std::function<bool(const ManifestEntry&)>& here);
  // True: the reader has not come to this file yet.
  [[nodiscard]] bool before(std::uint32_t entry) const;
  // True when the reader is at one of the kFiles entries behind this one: shards report the files
  // of one reader out of order, and another reader so close behind finds its files fetched.
  [[nodiscard]] bool justPassed(std::uint32_t entry) const;
  // True: the file that the reader came to last is still read.
  [[nodiscard]] bool reading() const;

 private:
  struct Expected {
    std::uint32_t entry = 0;
    std::uint64_t length = 0;
  };

  mutable std::mutex mutex_;
  std::size_t files_;
  std::weak_ptr<FileFetch> at_;
  std::uint32_t reached_ = 0;   // entries before it are behind the reader
  std::uint32_t end_ = 0;       // entries before it have been looked at
  std::deque<Expected> ahead_;  // between reached_ and end_; length 0: the file is here
  std::uint64_t bytes_ = 0;     // of `ahead_`
};

}  // namespace hearth
