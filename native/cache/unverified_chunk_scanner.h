// Looks, in the background, at the files that a damaged residency log leaves in doubt, one after
// the other. Until a chunk was looked at it is absent, and fetched when a reader needs it sooner.
#pragma once

#include <atomic>
#include <vector>

#include "base/content_key.h"
#include "reactor/synchronization.h"

namespace hearth {

struct CacheCore;

class UnverifiedChunkScanner {
 public:
  // `core` must remain live while this object is used.
  explicit UnverifiedChunkScanner(CacheCore& core);

  // shards[0], before close().
  void start(std::vector<ContentKey> keys);
  // shards[0]. Stops after the chunk in hand; what is left is in doubt at the next start.
  [[nodiscard]] Task<void> close();
  // Any thread. Files that are left.
  [[nodiscard]] std::size_t left() const { return left_; }

 private:
  static Task<void> run(UnverifiedChunkScanner& scanner, std::vector<ContentKey> keys);

  CacheCore& core_;
  Gate running_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> left_{0};
};

}  // namespace hearth
