// A range of a chunk as an answer to a peer: lends the memory that has the chunk while that can be
// spared. Afterwards, and when much else is sent first, load() looks for the bytes when their turn
// comes: in memory again, where stored chunks stay, and else in the cache file. A chunk that is not
// in the file yet keeps its memory anyway.
#pragma once

#include <memory>
#include <mutex>

#include "cache/content_cache.h"
#include "fetch/bandwidth_limiter.h"
#include "fetch/loaded_chunk.h"
#include "fetch/memory_tier.h"
#include "transport/peer_transport.h"

namespace hearth {

// The class in which a peer's request waits for the node's limits.
[[nodiscard]] inline Priority priorityOf(const Interest& interest) {
  return interest.requestClass() == RequestClass::kDemand ? Priority::kDemand
                                                          : Priority::kBackground;
}

class LentChunk final : public LentPayload, public std::enable_shared_from_this<LentChunk> {
 public:
  // The owner of the memory; all members outlive the answers.
  struct Lender {
    Reactor& reactor;
    MemoryTier& memory;
    BandwidthLimiter& disk;
  };
  // The peer that is answered. The read waits for the disk's limit as urgently as the peer waits,
  // and no longer.
  struct Asker {
    Reactor& answering;  // of the connection; outlives the answer
    Interest interest;
  };

  // [offset, offset + length) lies inside the chunk, which is resident or being written.
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
  // Borrows the chunk from the memory that has it now. False: only the cache file has it.
  [[nodiscard]] Task<bool> borrowAgain();

  const Asker asker_;
  const Lender lender_;
  std::mutex mutex_;
  std::shared_ptr<LoadedChunk> loaded_;  // null: given back
  const std::weak_ptr<LoadedChunk> memory_;
  std::shared_ptr<CachedFile> file_;
  std::span<const std::byte> verified_;  // in the mapped file
  const std::uint64_t offset_;
  const std::uint32_t length_;
};

}  // namespace hearth
