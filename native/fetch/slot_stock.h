// The slots of one shard, pieces of memory of a chunk each, which its pools share. Each pool has a
// reserve that the others never take, so that work that holds slots of one pool and waits for work
// that needs slots of another always gets on; the pools share all other slots. The memory tier has
// the slots that no pool needs, and gives them up when one does. Slots may go to another shard's
// stock (SlotExchange). Their memory stays where it is: it is taken once (touched ahead, registered
// with devices) and kept. On the shard's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "arena/arena_index.h"
#include "base/clock.h"
#include "fetch/urgency.h"
#include "memory/memory_vector.h"

namespace hearth {

class BufferPool;
class ChunkBuffer;

// One slot of kChunkBytes.
struct ChunkSlot {
  std::shared_ptr<MemoryRegion> memory;
  std::uint64_t offset = 0;
  std::size_t number = 0;  // in the arena

  [[nodiscard]] std::byte* data() const { return memory->bytes().subspan(offset).data(); }
};

class SlotStock {
 public:
  // With fewer, requests of several slots might wait for ever.
  static constexpr std::size_t kFewest = 4;
  // Slots that move between stocks at a time.
  static constexpr std::size_t kBatch = 16;

  // Uses `slots` in this order, slots given back last before the others. They must remain live
  // while any stock to which they may go is used, and `index` as long. `index` records the contents
  // of slots; the slots that it calls valid are left for adopt(). Null: there is none.
  explicit SlotStock(const std::vector<const ChunkSlot*>& slots, ArenaIndex* index = nullptr);
  SlotStock(const SlotStock&) = delete;
  SlotStock& operator=(const SlotStock&) = delete;

  // Slots that are here now, and the most that may be here when other shards need few.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t reach() const { return std::max(reach_, size_); }
  [[nodiscard]] std::size_t free() const { return free_.size(); }
  // `reclaim`: called when slots are short. Makes a slot that no pool holds come back, now or soon;
  // false: none can.
  void setReclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // The same for callers that can do without: only slots that no reader is on the way to.
  void setReclaimIdle(std::function<bool()> reclaim) { reclaimIdle_ = std::move(reclaim); }
  // `more`: called when slots are short, before anything is reclaimed. True: other shards were
  // asked, after which receive() is called, with or without slots.
  void setMore(std::function<bool()> more, std::size_t reach) {
    more_ = std::move(more);
    reach_ = reach;
  }
  // Stops recording in the index: its slots are for the next process. So no slot leaves any more.
  void leaveIndex();
  // The slots that a process before this one has left with contents, each once.
  [[nodiscard]] std::vector<ChunkBuffer> adopt();
  // Takes back buffers of adopt() whose slots the next process is to find as this one did.
  void leaveAdopted(std::vector<ChunkBuffer> adopted);
  // Serves every waiter of every pool that can be served now, after more has become reclaimable.
  void serve();

  // Slots that always stay here: the reserves of its pools.
  [[nodiscard]] std::size_t floor() const;
  [[nodiscard]] bool mayLend() const { return !leftIndex_ && size_ > floor(); }
  // Takes out up to `most` free slots that no pool here needs soon.
  [[nodiscard]] std::vector<const ChunkSlot*> lend(std::size_t most);
  // Adds `slots` to this stock and serves waiters, also when there are none.
  void receive(const std::vector<const ChunkSlot*>& slots);

 private:
  friend BufferPool;
  friend ChunkBuffer;

  // The pool has its reserve until leave().
  void join(BufferPool& pool);
  void leave(BufferPool& pool);
  // Slots that the pool could take now.
  [[nodiscard]] std::size_t availableTo(const BufferPool& pool) const;
  // Slots that the pool may hold at most: all but the reserves of the others.
  [[nodiscard]] std::size_t limitOf(const BufferPool& pool) const;
  // Free slots beyond the unused reserves of all pools.
  [[nodiscard]] std::size_t spare() const;
  // With fewer to spare, slots are short.
  [[nodiscard]] std::size_t few() const { return std::min(kBatch, size_ / 4); }
  [[nodiscard]] const ChunkSlot* take();
  void put(const ChunkSlot* slot);
  // Makes slots come back: slots that no pool holds, then the asker's, then slots of other pools
  // beyond their reserves. False: none can.
  [[nodiscard]] bool reclaim(BufferPool& asker, Priority priority);
  [[nodiscard]] bool reclaimIdle();

  std::size_t size_;
  std::size_t reach_ = 0;
  ArenaIndex* index_;
  bool leftIndex_ = false;
  std::vector<const ChunkSlot*> free_;  // the last is taken first
  std::vector<const ChunkSlot*> left_;  // by the process before
  std::vector<BufferPool*> pools_;
  std::function<bool()> reclaim_ = [] { return false; };
  std::function<bool()> reclaimIdle_ = [] { return false; };
  std::function<bool()> more_ = [] { return false; };
  bool reclaiming_ = false;
};

}  // namespace hearth
