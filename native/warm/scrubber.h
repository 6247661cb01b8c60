// The background scrub: reads the contents of the cache directories again, slowly, the file looked
// at longest ago first, past the page cache, and compares every block with its checksum. A chunk
// with a bad block is absent from then on and is fetched again, from other agents or the origin,
// into the same file, so that mounted views show good bytes again. When a repair is not possible
// now the scrub tries again, less and less often; until then the file is incomplete: it is not
// served as a whole, and gets no new view. After a start the scrub may be faster than the agent
// that gives the engine its datasets: a chunk is lost only when no dataset lists it for a while.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "dataset/manifest_store.h"
#include "fetch/rate_limiter.h"
#include "warm/warm_ports.h"

namespace hearth {

struct ScrubOptions {
  std::uint64_t bytesPerSecond = std::uint64_t{20} << 20;  // of each cache directory; 0: no scrub
  Clock::duration interval = std::chrono::hours(1);        // from one look at a file to the next
};

struct ScrubStatistics {
  std::uint64_t bytes = 0, badBlocks = 0;
  std::uint64_t repairedChunks = 0;
  std::uint64_t lostChunks =
      0;  // could be had from nowhere when they were found bad; some may since
};

class Scrubber {
 public:
  // The references outlive it. Repairs run in the gates of their shards.
  Scrubber(const WarmPorts& ports, ManifestStore& manifests, ScrubOptions options);

  // On the home shard. close() ends what start() began, and comes before the shards' gates close.
  void start();
  [[nodiscard]] Task<void> close();
  // Any thread.
  [[nodiscard]] ScrubStatistics statistics() const;

 private:
  // A chunk that was found bad, and how it goes with its repair.
  struct BadChunk {
    ContentKey key;
    std::uint32_t chunk = 0;
    Clock::time_point foundAt, tryAt;
    Clock::duration pause{};  // before the next try
    bool lost = false;        // counted and logged as such
  };
  Task<void> scrubDirectory(std::size_t directory);
  Task<void> scrubFile(ContentKey key, RateLimiter& rate);
  // On the key's shard. The chunks of the file, 0 when it is not here; a chunk's bytes.
  Task<std::uint64_t> scrubChunk(const WarmShard& owner, ContentKey key, std::uint32_t chunk);
  // On the key's shard, in its gate.
  void beginRepair(const WarmShard& owner, BadChunk bad);
  Task<void> repair(const WarmShard& owner, BadChunk bad);
  void noteRepaired(const BadChunk& bad, const std::string& name);
  void noteLost(BadChunk& bad, const std::string& name, const Error& why);
  // Chunks that could not be repaired, each when its time has come.
  Task<void> repairAgain();
  void tryLater(BadChunk bad);
  [[nodiscard]] std::vector<BadChunk> takeDue(Clock::time_point now);
  Task<Status> fetchAgain(const WarmShard& owner, const FileReference& file, std::uint32_t chunk);
  [[nodiscard]] std::optional<FileReference> referenceOf(const ContentKey& key);

  const WarmPorts& ports_;
  const WarmShard& home_;
  ManifestStore& manifests_;
  const ScrubOptions options_;
  Event stopping_;
  Gate running_;
  std::vector<std::unique_ptr<RateLimiter>> rates_;  // by cache directory
  std::atomic<std::size_t> repairing_{0};
  std::mutex mutex_;                  // guards unrepaired_
  std::vector<BadChunk> unrepaired_;  // the one found first in front
  std::atomic<std::uint64_t> bytes_{0}, badBlocks_{0}, repaired_{0}, lost_{0};
};

}  // namespace hearth
