// A range of a chunk as an answer to a peer: from the memory that the chunk came in while that can
// be spared, and from the cache file afterwards.
#pragma once

#include <memory>
#include <mutex>

#include "cache/content_cache.h"
#include "fetch/loaded_chunk.h"
#include "transport/peer_transport.h"

namespace hearth {

class LentChunk final : public LentPayload {
 public:
  // [offset, offset + length) of the file lies inside the chunk, which is resident. `reactor`: of
  // the connection; outlives this.
  LentChunk(Reactor& reactor, std::shared_ptr<LoadedChunk> loaded, std::shared_ptr<CachedFile> file,
            std::uint64_t offset, std::uint32_t length)
      : reactor_(reactor),
        loaded_(std::move(loaded)),
        file_(std::move(file)),
        offset_(offset),
        length_(length) {}

  Piece now() override;
  Task<Status> load() override;
  void release() override;

 private:
  Reactor& reactor_;
  std::mutex mutex_;
  std::shared_ptr<LoadedChunk> loaded_;  // null once it has been given back
  std::shared_ptr<CachedFile> file_;
  std::span<const std::byte> verified_;  // in the mapped file
  const std::uint64_t offset_;
  const std::uint32_t length_;
};

}  // namespace hearth
