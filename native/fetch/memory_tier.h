// Keeps chunks that are in memory and wait for no disk any more, by content key. Readers of this
// agent and other agents get them from here until the memory is needed. Files are kept whole and
// evicted whole:
//
//   - EvictionPolicy decides which file goes first. A file stays while chunks of it are on their
//     way or readers of this agent go through it.
//   - A file that takes more than half of the memory that this shard may have (SlotStock::reach)
//     passes through: its chunks go one by one, before any whole file.
//   - Where all that is left is in use, single chunks go: first those that no reader will come to,
//     the oldest before the others.
//   - A chunk that a reader has yet to come to stays for kReaderTimeout, so that fetching ahead
//     slows down to the reader's pace instead of sending bytes to the disk that are read back at
//     once. Beyond half of the memory the newest such chunk goes, as the reader comes to the others
//     earlier.
//   - A chunk that is being sent to a peer stays for kReaderTimeout; then its answers go on from
//     the cache file, so that a slow peer holds no memory. While a system call or an RDMA device
//     reads the chunk its slot could not come back, so the tier passes over it; the transport
//     bounds how many slots a peer holds so, and for how long.
//   - A chunk that the cache could not keep stays while its reader goes through it: each piece of
//     it would otherwise be fetched again.
//
// On the shard's thread, except for members marked "any thread".
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

  // The key's chunks in memory, for a caller that begins to want the key. Counts as a use of the
  // file.
  [[nodiscard]] std::shared_ptr<LoadedChunks> open(const ContentKey& key);
  // The chunk if it is kept here, wanted or not; else null. Finding chunk 0 counts as a use of the
  // file.
  [[nodiscard]] std::shared_ptr<LoadedChunk> find(const ContentKey& key, std::uint32_t chunk);

  // Takes the chunk's slot out of its pool and keeps the chunk until a pool needs the slot.
  void keep(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
            std::shared_ptr<LoadedChunk> loaded);
  // A landed chunk waits for no disk any more: keeps it, unless its file has dropped it meanwhile.
  // Nobody finds a dropped chunk again; the tier takes it back from peers as it does a kept one.
  void settle(const std::shared_ptr<KeyFetch>& fetch, std::uint32_t chunk,
              const std::shared_ptr<LoadedChunk>& loaded);
  // Notes a chunk that peers may be sent although it is not kept here: the tier takes it back from
  // them as it does a kept one.
  void noteLent(const std::shared_ptr<LoadedChunk>& loaded) { lent_.push_back(loaded); }
  // Keeps a chunk, read by a process before this one or from the disk, of a file of `size` bytes
  // that this agent has in its cache. `wanted`: the key's KeyFetch, or null.
  void adopt(const ContentKey& key, std::uint64_t size, const std::shared_ptr<KeyFetch>& wanted,
             std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded);
  // Drops all chunks of the key. Returns their bytes.
  std::uint64_t forget(const ContentKey& key);
  // As forget(), but drops nothing while readers of this agent go through the file or chunks of it
  // come in.
  std::uint64_t forgetIdle(const ContentKey& key);
  void clear();

  // Says which files another shard may drop for the sake of this one.
  struct Claim {
    Clock::time_point before;  // files used last before that
    bool again;                // also files used again after they came
  };
  // Holds for as long as it takes to ask.
  [[nodiscard]] Claim claim();
  // Drops a file, or a chunk of one that passes through, for another shard's claim. False: nothing
  // here may go for it.
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
    std::weak_ptr<KeyFetch> fetch;  // expired: the key is not wanted now
    std::shared_ptr<LoadedChunks> chunks;
    std::list<Kept> kept;  // oldest first
    std::unordered_map<std::uint32_t, Place> places;
    Clock::time_point used = Clock::now();
  };
  using Files = std::unordered_map<ContentKey, File, ContentKeyHash>;
  // The chunk to drop among those looked at; `files` is null when there is none.
  struct Candidate {
    Files* files = nullptr;
    Files::iterator file;
    Place place;
  };

  [[nodiscard]] static bool inUse(const File& file);
  // True: no reader of this agent will read the chunk from memory.
  [[nodiscard]] static bool idle(const KeyFetch* fetch, const Kept& kept);
  // True: a peer is being sent the chunk.
  [[nodiscard]] static bool lent(const std::weak_ptr<LoadedChunk>& loaded);
  // True: the chunk may go. Patient: nobody else holds it. Impatient: no peer has been reading it
  // for less than kReaderTimeout. Never while it is being sent.
  [[nodiscard]] static bool evictable(const std::weak_ptr<LoadedChunk>& loaded, bool impatient);
  // True: the chunk is in memory only.
  [[nodiscard]] static bool nowhereElse(const KeyFetch* fetch, const Kept& kept);
  [[nodiscard]] static Clock::time_point lastUse(const KeyFetch* fetch, const Kept& kept);

  // Makes memory come back, now or soon; false: nothing here may go.
  bool makeRoom();
  // Drops a file or chunk that no reader is on the way to.
  bool dropUnawaited(bool impatient);
  bool takeBackOne();
  bool dropIdle(Files& files, bool impatient);
  [[nodiscard]] static Candidate oldestIdle(Files& files, bool impatient);
  // The file to drop next. Some chunk of it is evictable: else its slots would not come back, and
  // files would go for nothing.
  [[nodiscard]] std::optional<ContentKey> nextFile(bool impatient);
  bool dropFile(bool impatient);
  bool dropNewest();
  bool dropAwaited();
  bool dropCandidate(const Candidate& candidate);
  // `files` is whole_ or passing_.
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
  Files whole_;            // kept whole, or will be when all of them is here
  Files passing_;          // too large to be kept whole
  // Chunks that are not kept here, or no longer, but are being sent to peers.
  std::list<std::weak_ptr<LoadedChunk>> lent_;
  Reactor::Timer timer_;
  bool ticking_ = false;  // memory was asked for in vain: the timer looks again
  std::atomic<std::uint64_t> chunks_{0}, bytes_{0}, evictedFiles_{0};
};

}  // namespace hearth
