// The first bytes of a chunk that still comes from the origin, for other agents: they read them
// while the rest comes. Only origins fill such chunks. So an agent that waits for one waits for an
// origin at the end of it, and never, over whatever other agents, for itself.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "fetch/loaded_chunk.h"
#include "reactor/synchronization.h"

namespace hearth {

// On one shard's thread. Bytes that are here do not change any more.
class ChunkArrival {
 public:
  // Readers are sent elsewhere when nothing has come for so long: they keep memory for the chunk,
  // which other chunks could use.
  static constexpr std::chrono::seconds kStalled{2};

  // `loaded` gets the bytes; `reactor` must remain live while this object is used.
  ChunkArrival(Reactor& reactor, std::shared_ptr<LoadedChunk> loaded,
               Clock::duration stalled = kStalled)
      : loaded_(std::move(loaded)), moved_(reactor), stalled_(stalled) {}

  // `bytes` more are in memory, whole blocks or the chunk's end, and the chunk has their checksums.
  void advance(std::size_t bytes) {
    here_ += bytes;
    wake();
  }
  // No more will come. When not all is here, memory that answers to peers have is given back.
  void end() {
    if (std::exchange(ended_, true)) return;
    if (here_ < loaded_->bytes.size()) loaded_->takeBack();
    wake();
  }

  // The chunk, of which the first `bytes` and their checksums may be read: they are here; else
  // null.
  [[nodiscard]] std::shared_ptr<LoadedChunk> first(std::size_t bytes) const {
    return here_ < bytes ? nullptr : loaded_;
  }
  // Ends with first() when that is not null, or when they will not come, or not soon.
  [[nodiscard]] static Task<std::shared_ptr<LoadedChunk>> awaitFirst(
      std::shared_ptr<ChunkArrival> arrival, std::size_t bytes) {
    while (arrival->here_ < bytes && !arrival->ended_) {
      const bool moved = co_await arrival->moved_.waitUntil(Clock::now() + arrival->stalled_);
      if (!moved) break;
    }
    co_return arrival->first(bytes);
  }

 private:
  void wake() {
    moved_.set();
    moved_.reset();
  }

  const std::shared_ptr<LoadedChunk> loaded_;
  Event moved_;
  const Clock::duration stalled_;
  std::size_t here_ = 0;
  bool ended_ = false;
};

}  // namespace hearth
