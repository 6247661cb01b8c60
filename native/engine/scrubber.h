// The background scrub: reads what the cache directories hold again, slowly, the file that was
// looked at longest ago first, past the page cache, and compares every block with its checksum. A
// chunk with a bad block is absent from then on and is fetched again, from other agents or the
// origin, into the same file, so that views that are mounted show good bytes again. Where that
// cannot be the file stays incomplete: it is not served as a whole, and gets no new view.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/manifest_store.h"
#include "engine/rate_limiter.h"
#include "engine/shard.h"

namespace hearth {

struct ScrubOptions {
  std::uint64_t bytesPerSecond = std::uint64_t{20} << 20;  // of each cache directory; 0: no scrub
  Clock::duration interval = std::chrono::hours(1);        // from one look at a file to the next
};

struct ScrubStatistics {
  std::uint64_t bytes = 0, badBlocks = 0;
  std::uint64_t repairedChunks = 0;
  std::uint64_t lostChunks = 0;  // could be had from nowhere when they were found bad
};

class Scrubber {
 public:
  // The references outlive it. Repairs run in the gates of their shards.
  Scrubber(EngineCommons& commons, Shard& home, ManifestStore& manifests, ScrubOptions options);

  // On the home shard. close() ends what start() began, and comes before the shards' gates close.
  void start();
  [[nodiscard]] Task<void> close();
  // Any thread.
  [[nodiscard]] ScrubStatistics statistics() const;

 private:
  Task<void> scrubDirectory(std::size_t directory);
  Task<void> scrubFile(ContentKey key, RateLimiter& rate);
  // On the key's shard. The chunks of the file, 0 when it is not here; a chunk's bytes.
  Task<std::uint64_t> scrubChunk(Shard& owner, ContentKey key, std::uint32_t chunk);
  Task<void> repair(Shard& owner, ContentKey key, std::uint32_t chunk);
  Task<Status> fetchAgain(Shard& owner, const FileReference& file, std::uint32_t chunk);
  [[nodiscard]] std::optional<FileReference> referenceOf(const ContentKey& key);

  EngineCommons& commons_;
  Shard& home_;
  ManifestStore& manifests_;
  const ScrubOptions options_;
  Event stopping_;
  Gate running_;
  std::vector<std::unique_ptr<RateLimiter>> rates_;  // by cache directory
  std::atomic<std::size_t> repairing_{0};
  std::atomic<std::uint64_t> bytes_{0}, badBlocks_{0}, repaired_{0}, lost_{0};
};

}  // namespace hearth
