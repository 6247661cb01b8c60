// Lets other agents read the first bytes of a chunk while the rest still comes from the origin.
// Only origins fill such chunks, so an agent that waits for one waits for an origin in the end and
// never, through other agents, for itself.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "fetch/loaded_chunk.h"
#include "reactor/synchronization.h"

namespace hearth {

// On one shard's thread. Bytes that have arrived never change.
class ChunkArrival {
 public:
  // Readers go elsewhere after so long without a byte: each holds memory for the chunk that other
  // chunks could use.
  static constexpr std::chrono::seconds kStalled{2};

  // `loaded` gets the bytes; `reactor` must remain live while this object is used.
  ChunkArrival(Reactor& reactor, std::shared_ptr<LoadedChunk> loaded,
               Clock::duration stalled = kStalled)
      : loaded_(std::move(loaded)), moved_(reactor), stalled_(stalled) {}

  // Adds `bytes`, whole blocks or the chunk's end. The chunk already has them and their checksums.
  void advance(std::size_t bytes) {
    here_ += bytes;
    wake();
  }
  // No more bytes will come. If the chunk is incomplete, answers to peers give its memory back.
  void end() {
    if (std::exchange(ended_, true)) return;
    if (here_ < loaded_->bytes.size()) loaded_->takeBack();
    wake();
  }

  // The chunk once its first `bytes` and their checksums may be read; else null.
  [[nodiscard]] std::shared_ptr<LoadedChunk> first(std::size_t bytes) const {
    return here_ < bytes ? nullptr : loaded_;
  }
  // Waits for first(bytes). Null: the bytes will not come, or nothing came for the stall time.
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
