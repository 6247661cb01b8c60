// One content key on this agent: its chunks, their block checksums and their states. The state of a
// chunk and every member marked so may be used on any thread; each other member names its guard.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/sha256.h"
#include "cache/residency_record.h"
#include "reactor/reactor.h"

namespace hearth {

class CacheDirectory;
class OpenCacheFile;

//   absent -> writing -> resident -> claimed        (claimed: the log says so, durably)
//   resident, claimed -> spoiled -> writing         (bad bytes found, or a failed write or sync)
//   doubtful -> resident, spoiled, writing          (once its bytes were looked at, or are
//   replaced)
enum class ChunkState : std::uint8_t {
  kAbsent,
  kWriting,
  kResident,
  kClaimed,
  kSpoiled,   // absent to readers; its space is taken and the log may still claim it
  kDoubtful,  // the same, and it is not known whether its bytes are good
};

class CacheEntry {
 public:
  // `home` must remain live while this object is used.
  CacheEntry(const ContentKey& contentKey, std::uint64_t bytes, CacheDirectory& home,
             bool isExecutable);

  const ContentKey key;
  const std::uint64_t size;
  CacheDirectory& directory;

  // Any thread.
  [[nodiscard]] std::uint32_t chunkCount() const {
    return static_cast<std::uint32_t>(chunks_.size());
  }
  [[nodiscard]] std::uint64_t chunkBytes(std::uint32_t chunk) const {
    return chunkLength(size, chunk);
  }
  [[nodiscard]] ChunkState state(std::uint32_t chunk) const {
    return chunks_[chunk].state.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool resident(std::uint32_t chunk) const {
    const ChunkState now = state(chunk);
    return now == ChunkState::kResident || now == ChunkState::kClaimed;
  }
  [[nodiscard]] std::uint64_t residentBytes() const {
    const std::int64_t bytes = residentBytes_.load(std::memory_order_relaxed);
    return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }
  [[nodiscard]] bool complete() const {
    return residentChunks_.load(std::memory_order_acquire) == chunkCount();
  }
  // All of it is in the log: what is on the disk survives a power loss.
  [[nodiscard]] bool fullyClaimed() const;
  // The same of what is resident, which may be a part.
  [[nodiscard]] bool allClaimed() const;
  // Of a chunk that is or was resident.
  [[nodiscard]] std::uint32_t blockChecksum(std::uint32_t chunk, std::uint32_t block) const {
    return chunks_[chunk].checksums[block].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::vector<std::uint32_t> blockChecksums(std::uint32_t chunk) const;
  // A resident chunk becomes spoiled. False: it was not resident.
  bool spoil(std::uint32_t chunk);
  // Changes before a chunk is spoiled: what is found out about the whole file holds for the
  // generation in which they began to look.
  [[nodiscard]] std::uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }
  // The log says durably that the whole file is what its digest says (RecordType::kVerified), and
  // nothing of it was spoiled since.
  [[nodiscard]] bool verified() const {
    return verifiedGeneration_.load(std::memory_order_acquire) == generation();
  }
  // resident -> claimed, after its claim is in the log.
  void markClaimed(std::uint32_t chunk);
  // The log may hold claims of this key: evicting it needs a drop record. Never becomes false
  // again.
  [[nodiscard]] bool everClaimed() const { return everClaimed_.load(std::memory_order_acquire); }
  void noteClaim() { everClaimed_.store(true, std::memory_order_release); }

  // The directory's home, under its commit lock: after the record is in the log, with the
  // generation for which it was found; and what was recorded, when verified().
  void markVerified(const Sha256Digest& digest, std::uint64_t generation);
  [[nodiscard]] Sha256Digest verifiedDigest() const;

  // Own shard, by whoever took the chunk to kWriting.
  void beginWrite(std::uint32_t chunk) { setState(chunk, ChunkState::kWriting); }
  void endWrite(std::uint32_t chunk, std::span<const std::uint32_t> checksums);
  void failWrite(std::uint32_t chunk, ChunkState back) { setState(chunk, back); }
  // During recovery: a chunk that the log claims.
  void restore(std::uint32_t chunk, std::span<const std::uint32_t> checksums, bool doubtful);
  // Own shard. A doubtful chunk was looked at: resident or spoiled from now on. False: another
  // writer writes it again.
  bool settleDoubt(std::uint32_t chunk, bool good);

  // Any thread. Milliseconds since the epoch; never go back. A use of this agent, and one anywhere
  // in the cluster, which may lie ahead for what is used much.
  void touch(std::int64_t usedAtMs) { later(ownUseMs_, usedAtMs); }
  void noteClusterUse(std::int64_t usedAtMs) { later(clusterUseMs_, usedAtMs); }
  [[nodiscard]] std::int64_t ownUseMs() const { return ownUseMs_.load(std::memory_order_relaxed); }
  // The later of the two.
  [[nodiscard]] std::int64_t lastUsedMs() const {
    return std::max(ownUseMs(), clusterUseMs_.load(std::memory_order_relaxed));
  }

  // Any thread. Bytes charged to the directory's budget; 0 when there is no cache file. (An empty
  // file is charged one allocation unit.)
  std::atomic<std::uint64_t> charged{0};
  std::atomic<bool> executable;
  // Any thread. When all of it was last scrubbed, or it was made; the smallest: before this process
  // began.
  std::atomic<Clock::time_point> scrubbedAt{Clock::time_point::min()};
  // Any thread. Until then this is taken for the last copy in the cluster.
  std::atomic<Clock::time_point> lastCopyUntil{Clock::time_point::min()};
  // Any thread. Until then others are not asked again whether they keep it.
  std::atomic<Clock::time_point> unconfirmedUntil{Clock::time_point::min()};

  // Guarded by the KeyIndex's mutex: the one open file of the key while it is in use, and whether
  // the key is about to go.
  std::weak_ptr<OpenCacheFile> open;
  bool evicting = false;

 private:
  struct Chunk {
    std::atomic<ChunkState> state{ChunkState::kAbsent};
    std::unique_ptr<std::atomic<std::uint32_t>[]>
        checksums;  // set before the chunk is first resident
  };
  void setState(std::uint32_t chunk, ChunkState to) {
    chunks_[chunk].state.store(to, std::memory_order_release);
  }
  void setChecksums(std::uint32_t chunk, std::span<const std::uint32_t> checksums);
  void countResident(std::uint32_t chunk);
  static void later(std::atomic<std::int64_t>& time, std::int64_t toMs);

  std::vector<Chunk> chunks_;
  std::atomic<std::int64_t> residentChunks_{0};
  std::atomic<std::int64_t> residentBytes_{0};
  std::atomic<std::int64_t> ownUseMs_{0};
  std::atomic<std::int64_t> clusterUseMs_{0};
  std::atomic<bool> everClaimed_{false};
  std::atomic<std::uint64_t> generation_{1};
  std::atomic<std::uint64_t> verifiedGeneration_{0};  // 0: never
  // Null for a digest of zeros. Guarded by the directory's commit lock.
  std::unique_ptr<const Sha256Digest> verifiedDigest_;
};

}  // namespace hearth
