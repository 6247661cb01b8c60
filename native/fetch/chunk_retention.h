// Which chunks stay in memory after they came in, in the buffers of one pool. They stay until their
// readers had them, at most for a moment, and only while nothing needs the buffers more:
//
//   - what is not read (any more) goes first, the oldest before the others;
//   - what a reader has yet to come to is kept for kReaderTimeout, so that fetching ahead slows
//     down to the reader's pace instead of sending bytes to the disk that are read back at once;
//   - what is being sent to a peer is kept for kReaderTimeout, then its answers go on from the
//     cache file; so a peer that reads slowly, or not at all, holds no buffers;
//   - beyond half of the pool the newest of those goes: the reader will come to the others earlier;
//   - what is nowhere else, because the cache could not keep it, stays while its reader goes
//   through
//     it: it would have to be fetched once more for each piece of it.
//
// On the pool's thread.
#pragma once

#include <list>
#include <memory>

#include "fetch/buffer_pool.h"
#include "fetch/file_fetch.h"

namespace hearth {

class ChunkRetention {
 public:
  // Both must remain live while this object is used.
  ChunkRetention(Reactor& reactor, BufferPool& pool);
  ChunkRetention(const ChunkRetention&) = delete;
  ChunkRetention& operator=(const ChunkRetention&) = delete;

  // Readers of the file find the chunk in memory from now on.
  void keep(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
            std::shared_ptr<LoadedChunk> loaded);
  // Lets everything go.
  void clear();

  [[nodiscard]] std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    std::weak_ptr<KeyFetch> fetch;
    std::uint32_t chunk;
    std::weak_ptr<LoadedChunk> loaded;
    Clock::time_point since;
  };
  using Place = std::list<Kept>::iterator;

  // No reader of this agent will read it from memory.
  [[nodiscard]] static bool idle(const Kept& kept);
  // No peer is being sent it, or one for so long that it gets the rest from the file.
  [[nodiscard]] static bool evictable(const std::weak_ptr<LoadedChunk>& loaded, bool impatient);
  bool takeBackOne();
  // It is nowhere else.
  [[nodiscard]] static bool passing(const Kept& kept);
  [[nodiscard]] static Clock::time_point lastUse(const Kept& kept);
  // Beyond what may be kept of chunks that the cache has, too.
  [[nodiscard]] bool tooMany() const;
  // Lets one go that may go now; false when there is none.
  bool dropOne();
  void drop(Place place);
  void tick();

  BufferPool& pool_;
  std::list<Kept> kept_;  // oldest first
  // No longer kept here, but still being sent to peers.
  std::list<std::weak_ptr<LoadedChunk>> lent_;
  Reactor::Timer timer_;
};

}  // namespace hearth
