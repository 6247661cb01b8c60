// Answers small reads of cache files for peers at once where the page cache has the bytes: a helper
// thread, and opening and mapping the file, would each cost more than the read itself. Used on the
// shard's thread only.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "cache/content_cache.h"
#include "reactor/reactor.h"

namespace hearth {

class SmallReads {
 public:
  // Largest read, in whole blocks: its copy and checksums take a shard some 20 us.
  static constexpr std::uint64_t kMaxBytes = 2 * kBlockBytes;
  // Largest sum of copies that wait to be sent. Beyond that reads take the mapped file, so that
  // peers that do not read their answers hold no memory.
  static constexpr std::uint64_t kMaxCopied = std::uint64_t{8} << 20;
  // How long a file stays open after a small read: long enough for one read after the other, and
  // short beside a wait for room, as no open file can be evicted.
  static constexpr Clock::duration kKeptOpen = std::chrono::milliseconds(100);
  static constexpr std::size_t kMaxOpen = 16;

  // `reactor` must remain live while this object is used.
  explicit SmallReads(Reactor& reactor) : timer_(reactor) {}

  // A verified copy of the bytes; null: the read has to use CachedFile::verified(). `offset` begins
  // a block. The copy may outlive this object, and be dropped on any thread.
  [[nodiscard]] std::shared_ptr<const std::byte[]> read(CachedFile& file, std::uint64_t offset,
                                                        std::uint64_t length);
  // `length` bytes of the file were read: keeps it open for a moment where that is little.
  void keepOpen(const std::shared_ptr<CachedFile>& file, std::uint64_t length);
  // Closes the file, which is about to be evicted.
  void forget(const ContentKey& key);
  void clear();

 private:
  struct Open {
    std::shared_ptr<CachedFile> file;
    Clock::time_point until;
  };
  void closeIdle();

  std::shared_ptr<std::atomic<std::uint64_t>> copied_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::vector<Open> open_;
  Reactor::Timer timer_;  // runs while a file is open
};

}  // namespace hearth
