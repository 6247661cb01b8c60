// Chunks that are in memory and wait for no disk any more, by content key, whoever wants them:
// readers of this agent and other agents get them from here until the memory is needed. Files are
// kept whole and go whole:
//
//   - Which file goes first is EvictionPolicy's to say. None goes while chunks of it are on their
//     way or readers of this agent go through it.
//   - A file that takes more than half of the memory that this shard may have (SlotStock::reach) is
//     never kept whole: it passes through, and its chunks go one by one, before any whole file.
//   - Where all that is left is in use, chunks of it go one by one: what no reader will come to
//     goes first, the oldest before the others;
//   - what a reader has yet to come to is kept for kReaderTimeout, so that fetching ahead slows
//     down to the reader's pace instead of sending bytes to the disk that are read back at once;
//     beyond half of the memory the newest of those goes: the reader will come to the others
//     earlier;
//   - what is being sent to a peer is kept for kReaderTimeout, then its answers go on from the
//     cache file; so a peer that reads slowly, or not at all, holds no memory;
//   - what is nowhere else, because the cache could not keep it, stays while its reader goes
//     through it: it would have to be fetched once more for each piece of it.
//
// On the shard's thread, except where "any thread" is said.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "eviction/eviction_policy.h"
#include "fetch/file_fetch.h"
#include "fetch/slot_stock.h"

namespace hearth {

class MemoryTier {
 public:
  // Both must remain live while this object is used.
  MemoryTier(Reactor& reactor, SlotStock& stock);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  // What is in memory of this key, for who begins to want it: a use of the file.
  [[nodiscard]] std::shared_ptr<LoadedChunks> open(const ContentKey& key);
  // The chunk, if it is kept here; wanted or not. Its first chunk is a use of the file.
  [[nodiscard]] std::shared_ptr<LoadedChunk> find(const ContentKey& key, std::uint32_t chunk);

  // From now on the chunk's slot belongs to no pool: it is given up when a pool needs it.
  void keep(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
            std::shared_ptr<LoadedChunk> loaded);
  // A chunk that has landed waits for no disk any more: it is kept, unless its file has dropped it
  // meanwhile. Nobody finds a dropped chunk again; it is taken back from peers as a kept one is.
  void settle(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
              const std::shared_ptr<LoadedChunk>& loaded);
  // A peer may be sent it, though it is not kept here: it is taken back as what was kept is.
  void noteLent(const std::shared_ptr<LoadedChunk>& loaded) { lent_.push_back(loaded); }
  // What a process before this one had in memory, of a file of `size` bytes that this agent has in
  // its cache. `wanted`: who wants the key now, or null.
  void adopt(const ContentKey& key, std::uint64_t size, const std::shared_ptr<KeyFetch>& wanted,
             std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded);
  // Nothing of this key is kept any more: the agent has let go of the file. Bytes that were.
  std::uint64_t forget(const ContentKey& key);
  // The same where no reader of this agent is on its way to them, and none come in; else nothing.
  std::uint64_t forgetIdle(const ContentKey& key);
  void clear();

  // What may go at another shard for the sake of this one's.
  struct Claim {
    Clock::time_point before;  // what was used last before that
    bool again;                // also what was used again after it came
  };
  // For as long as it takes to ask.
  [[nodiscard]] Claim claim();
  // Lets go of a file, or a chunk of one that passes through; false: nothing here may go for that.
  bool yieldTo(const Claim& claim);

  // Any thread.
  [[nodiscard]] std::uint64_t chunks() const { return chunks_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t evictedFiles() const {
    return evictedFiles_.load(std::memory_order_relaxed);
  }

 private:
  struct Kept {
    std::uint32_t chunk;
    std::weak_ptr<LoadedChunk> loaded;
    std::uint64_t bytes;
    Clock::time_point since;
  };
  using Place = std::list<Kept>::iterator;
  struct File {
    std::weak_ptr<KeyFetch> fetch;  // expired: it is not wanted now
    std::shared_ptr<LoadedChunks> chunks;
    std::list<Kept> kept;  // oldest first
    std::unordered_map<std::uint32_t, Place> places;
    Clock::time_point used = Clock::now();
  };
  using Files = std::unordered_map<ContentKey, File, ContentKeyHash>;
  // The chunk that is to go, of those looked at; `files` is null when there is none.
  struct Candidate {
    Files* files = nullptr;
    Files::iterator file;
    Place place;
  };

  [[nodiscard]] static bool inUse(const File& file);
  // No reader of this agent will read it from memory.
  [[nodiscard]] static bool idle(const KeyFetch* fetch, const Kept& kept);
  // A peer is being sent it.
  [[nodiscard]] static bool lent(const std::weak_ptr<LoadedChunk>& loaded);
  // No other holds it, or a peer for so long that it gets the rest from the file.
  [[nodiscard]] static bool evictable(const std::weak_ptr<LoadedChunk>& loaded, bool impatient);
  // It is nowhere else.
  [[nodiscard]] static bool nowhereElse(const KeyFetch* fetch, const Kept& kept);
  [[nodiscard]] static Clock::time_point lastUse(const KeyFetch* fetch, const Kept& kept);

  // Makes memory come back, now or soon; false: nothing here may go.
  bool makeRoom();
  // What no reader is on the way to.
  bool dropUnawaited(bool impatient);
  bool takeBackOne();
  bool dropIdle(Files& files, bool impatient);
  [[nodiscard]] static Candidate oldestIdle(Files& files, bool impatient);
  // One of which some chunk is evictable: else its slots would not come back, and files would go
  // for nothing.
  [[nodiscard]] std::optional<ContentKey> nextFile(bool impatient);
  bool dropFile(bool impatient);
  bool dropNewest();
  bool dropAwaited();
  bool dropCandidate(const Candidate& candidate);
  // Of `files`, which are whole_ or passing_.
  void drop(Files& files, Files::iterator file, Place place);
  void dropAll(Files& files, Files::iterator file);
  void removeTrace(File& file, std::uint32_t chunk);
  [[nodiscard]] File* find(const ContentKey& key);
  [[nodiscard]] bool passes(std::uint64_t fileBytes) const;
  void insert(File& file, const ContentKey& key, bool passing, std::uint32_t chunk,
              std::shared_ptr<LoadedChunk> loaded);
  void tick();

  SlotStock& stock_;
  EvictionPolicy policy_;  // of whole_
  Files whole_;            // are kept whole, or will be when all of them is here
  Files passing_;          // are too large for that
  // Not kept here, or no longer, but being sent to peers.
  std::list<std::weak_ptr<LoadedChunk>> lent_;
  Reactor::Timer timer_;
  bool ticking_ = false;  // memory was asked for in vain: what may go changes with time
  std::atomic<std::uint64_t> chunks_{0}, bytes_{0}, evictedFiles_{0};
};

}  // namespace hearth
