// The slots of one shard: pieces of memory of a chunk each, which its pools share. Each pool has a
// reserve that the others never take, so that what holds slots of one and waits for what needs
// slots of another one always gets on; all else goes to whoever needs it. What no pool needs is the
// memory tier's, which gives it up when one does. Slots may go to another shard's stock
// (SlotExchange). Their memory stays where it is: it is taken once (touched ahead, registered with
// devices) and kept. On the shard's thread.
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

// Of kChunkBytes.
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
  // So many move between stocks at a time.
  static constexpr std::size_t kBatch = 16;

  // `slots` are used in this order, those that were given back last before the others. They must
  // remain live while any stock to which they may go is used. `index`: notes what is in them, and
  // must remain live as long; those of which it says that they are valid are left for adopt().
  // Null: there is none.
  explicit SlotStock(const std::vector<const ChunkSlot*>& slots, ArenaIndex* index = nullptr);
  SlotStock(const SlotStock&) = delete;
  SlotStock& operator=(const SlotStock&) = delete;

  // Slots that are here now, and those that may be here when others need few.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t reach() const { return std::max(reach_, size_); }
  [[nodiscard]] std::size_t free() const { return free_.size(); }
  // Asked when slots are short: makes one come back that no pool holds, now or soon, and says
  // whether it did.
  void setReclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // The same for who can do without: makes one come back that no reader is on the way to.
  void setReclaimIdle(std::function<bool()> reclaim) { reclaimIdle_ = std::move(reclaim); }
  // `more`: asked when slots are short, before anything is reclaimed: whether others have been
  // asked for some, after which receive() is called, with or without any.
  void setMore(std::function<bool()> more, std::size_t reach) {
    more_ = std::move(more);
    reach_ = reach;
  }
  // Nothing more is noted in the index: what is in the slots now is for the next process. So no
  // slot leaves any more.
  void leaveIndex();
  // The slots that a process before this one has left with something in them, each once.
  [[nodiscard]] std::vector<ChunkBuffer> adopt();
  // Serves all who wait and can be served now; for whoever can reclaim more than when they began.
  void serve();

  // What stays here in any case: the reserves of its pools.
  [[nodiscard]] std::size_t floor() const;
  [[nodiscard]] bool mayLend() const { return !leftIndex_ && size_ > floor(); }
  // Takes up to `most` out that are free and that no one here needs soon.
  [[nodiscard]] std::vector<const ChunkSlot*> lend(std::size_t most);
  // They are of this stock from now on; serves who waits, also when there are none.
  void receive(const std::vector<const ChunkSlot*>& slots);

 private:
  friend BufferPool;
  friend ChunkBuffer;

  // The pool's until leave(); both reserves are in force then.
  void join(BufferPool& pool);
  void leave(BufferPool& pool);
  // Slots that the pool could take now.
  [[nodiscard]] std::size_t availableTo(const BufferPool& pool) const;
  // What the pool may hold at most, as the reserves of the others are theirs.
  [[nodiscard]] std::size_t limitOf(const BufferPool& pool) const;
  // Free slots beyond what pools may have of their reserves.
  [[nodiscard]] std::size_t spare() const;
  // With fewer to spare they are short.
  [[nodiscard]] std::size_t few() const { return std::min(kBatch, size_ / 4); }
  [[nodiscard]] const ChunkSlot* take();
  void put(const ChunkSlot* slot);
  // Has slots come back: what no pool holds, then of pools that may lose some, of the asker first.
  // False: none can.
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
