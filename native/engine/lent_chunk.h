// A range of a chunk as an answer to a peer: from the memory that has it while that can be spared.
// Afterwards, and for what waits behind much else, it is looked for when its turn comes: in memory
// again, where stored chunks stay, and else in the cache file. What is not in that yet keeps its
// memory anyway.
#pragma once

#include <memory>
#include <mutex>

#include "cache/content_cache.h"
#include "fetch/bandwidth_limiter.h"
#include "fetch/loaded_chunk.h"
#include "fetch/memory_tier.h"
#include "transport/peer_transport.h"

namespace hearth {

// In which class what a peer asks for waits for the node's limits.
[[nodiscard]] inline Priority priorityOf(const Interest& interest) {
  return interest.requestClass() == RequestClass::kDemand ? Priority::kDemand
                                                          : Priority::kBackground;
}

class LentChunk final : public LentPayload, public std::enable_shared_from_this<LentChunk> {
 public:
  // Whose the memory is; all of it outlives the answers.
  struct Lender {
    Reactor& reactor;
    MemoryTier& memory;
    BandwidthLimiter& disk;
  };
  // Who is answered: as urgently, and no longer than it waits, the disk's limit is waited for.
  struct Asker {
    Reactor& answering;  // of the connection; outlives the answer
    Interest interest;
  };

  // [offset, offset + length) of the file lies inside the chunk, which is resident, or is being
  // written.
  LentChunk(Asker asker, Lender lender, std::shared_ptr<LoadedChunk> loaded,
            std::shared_ptr<CachedFile> file, std::uint64_t offset, std::uint32_t length)
      : asker_(std::move(asker)),
        lender_(lender),
        loaded_(std::move(loaded)),
        memory_(loaded_),
        file_(std::move(file)),
        offset_(offset),
        length_(length) {}

  Piece now() override;
  Task<Status> load() override;
  void release() override;

 private:
  // From whoever has the chunk in memory now. False: it is in the cache file alone.
  [[nodiscard]] Task<bool> borrowAgain();

  const Asker asker_;
  const Lender lender_;
  std::mutex mutex_;
  std::shared_ptr<LoadedChunk> loaded_;  // null once it has been given back
  const std::weak_ptr<LoadedChunk> memory_;
  std::shared_ptr<CachedFile> file_;
  std::span<const std::byte> verified_;  // in the mapped file
  const std::uint64_t offset_;
  const std::uint32_t length_;
};

}  // namespace hearth
