// What a shard knows of one content key that this agent wants: its cache file and the chunks under
// way, whoever wants them; and for each dataset that wants it the reference by which it is fetched
// for that one. The key is "wanted" while an object of this kind lives; in the sense of the key
// directory only while chunks are on their way, as who reads through brings none. Used on the key's
// shard, except where "any thread" is said.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/content_cache.h"
#include "dataset/dataset.h"
#include "directory/key_directory.h"
#include "fetch/chunk_arrival.h"
#include "fetch/hint_queue.h"
#include "fetch/loaded_chunk.h"
#include "fetch/refusal.h"
#include "fetch/source_rounds.h"
#include "reactor/synchronization.h"

namespace hearth {

struct InOrderHash;
class LookAhead;

// Chunks [first, first + count) of one stripe.
struct ChunkRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  [[nodiscard]] std::uint32_t end() const { return first + count; }
  [[nodiscard]] std::uint32_t stripe() const { return first / kChunksPerStripe; }
};

// Chunks of one request to the origin: large enough that requests cost nothing, small enough that
// several connections share a file.
inline constexpr std::uint32_t kRunChunks = 2;

// Lengthens the last run by `chunk` where that makes one request, else begins a new one.
void addToRuns(std::vector<ChunkRun>& runs, std::uint32_t chunk);

// One chunk on its way: whoever wants it waits for the same one. It is fetched as the dataset that
// wanted it first: what an origin refuses to that one it may give to another. It lands when its
// bytes are in memory and checked, where readers and other agents find them at once; it ends when
// they are in the cache file, too, or cannot be kept there.
struct ChunkFlight {
  // `reactor` must remain live while this object is used.
  ChunkFlight(Reactor& reactor, std::shared_ptr<const Dataset> fetchedAs)
      : dataset(std::move(fetchedAs)), landed(reactor), ended(reactor) {}
  const std::shared_ptr<const Dataset> dataset;
  Event landed;  // or it has ended
  Event ended;
  std::shared_ptr<Urgency> urgency;  // of the run that brings it
  Status status;                     // of its end: the chunk is in the cache, or why not
  // From landing until the last of `readers`, who wait for it, has it.
  std::shared_ptr<LoadedChunk> loaded;
  std::uint32_t readers = 0;
  bool toKeep = false;    // it is needed in the cache
  bool declined = false;  // it was not, and the cache was not asked: it has refused others lately
  // Set when the directory has answered whether we may fetch or read it; null: it is not asked.
  std::shared_ptr<Event> asking;
  // Set when it has landed, or is no longer under way; null: no other agent waits for it.
  std::shared_ptr<Event> left;
  bool fromOrigin = false;  // the directory has granted it to us, and it is being fetched
  // Of what comes from the origin, for other agents that want it; null: none does.
  std::shared_ptr<ChunkArrival> arrival;
  bool fromPeer = false;   // it is being read from an agent that holds it
  bool abandoned = false;  // by the job that began it: whoever else wants it begins again
  bool forgone = false;    // no reader waited for it, and it could not have been kept
  [[nodiscard]] bool underWay() const { return fromOrigin || fromPeer; }
  // Its bytes are in memory, and are being written to the cache file.
  [[nodiscard]] bool storing() const { return landed.isSet() && !ended.isSet(); }
  void leave() {
    if (const std::shared_ptr<Event> leaving = std::exchange(left, nullptr)) leaving->set();
    if (const auto arriving = std::exchange(arrival, nullptr)) arriving->end();
  }
};

// Where the bytes of one piece of work came from. Any thread.
struct FetchCounters {
  std::atomic<std::uint64_t> originBytes{0};
  std::atomic<std::uint64_t> peerBytes{0};
};

struct FileFetch;

struct KeyFetch {
  // `inMemory`: what of the key is in memory (MemoryTier::open).
  KeyFetch(const ContentKey& ofKey, std::uint64_t bytes, std::shared_ptr<CachedFile> cached,
           std::shared_ptr<LoadedChunks> inMemory)
      : key(ofKey), size(bytes), cache(std::move(cached)), memory(std::move(inMemory)) {}

  const ContentKey key;                     // any thread
  const std::uint64_t size;                 // any thread
  const std::shared_ptr<CachedFile> cache;  // any thread
  std::unordered_map<std::uint32_t, std::shared_ptr<ChunkFlight>> flights;
  const std::shared_ptr<LoadedChunks> memory;  // any thread; outlives this
  LoadedChunks& loaded = *memory;
  std::vector<std::weak_ptr<FileFetch>> files;

  // Of a file whose origin gives a digest, once a chunk came: its FileVerifier's.
  std::shared_ptr<InOrderHash> hash;
  // Who gave what is here, and who is asked once it was wrong. Not null.
  std::shared_ptr<SourceRounds> rounds = std::make_shared<SourceRounds>();
  // Requests of origins of which it is not noted yet who gave it, though all that they brought may
  // be here; and who waits until there are none.
  int requests = 0;
  Event* noted = nullptr;

  // By readers of any dataset.
  [[nodiscard]] bool awaited() const;
  // Chunks are on their way into memory.
  [[nodiscard]] bool coming() const;
  // The bytes of a chunk that has landed and is being written to the cache file; else null.
  [[nodiscard]] std::shared_ptr<LoadedChunk> storing(std::uint32_t chunk) const;
  // Bit i: chunk i of the stripe is here, in the cache file or on its way there from memory.
  [[nodiscard]] ChunkMask held(std::uint32_t stripe) const;
  // It has ended with that: the chunk is in the cache file, or why not.
  void end(std::uint32_t chunk, ChunkFlight& flight, const Status& status);
};

struct FileFetch {
  FileFetch(FileReference file, std::shared_ptr<KeyFetch> ofKey)
      : reference(std::move(file)), shared(std::move(ofKey)) {}

  const FileReference reference;           // any thread
  const std::shared_ptr<KeyFetch> shared;  // any thread

  const std::shared_ptr<CachedFile>& cache = shared->cache;  // any thread
  std::unordered_map<std::uint32_t, std::shared_ptr<ChunkFlight>>& flights = shared->flights;
  LoadedChunks& loaded = shared->loaded;  // any thread
  HintQueue hints;                        // any thread

  // The warm job that fills this file counts also what peers made us fetch of it; may be null.
  std::shared_ptr<FetchCounters> counters;

  Refusal refusal;  // by the origin, lately

  // Read-ahead: chunks up to the horizon are fetched in the background while a reader goes through
  // the file or is expected to.
  std::atomic<std::uint32_t> readers{0};  // who have it open and have begun to read; any thread
  std::atomic<std::uint32_t> reading{0};  // the chunk that was read of last; any thread
  std::uint32_t expecting = 0;            // look-aheads of readers on their way here
  std::shared_ptr<LookAhead> lookAhead;   // the last of these, until its reader has come
  std::uint32_t cursor = 0;
  std::uint32_t horizon = 0;
  bool prefetching = false;
  Clock::duration aheadPause{};  // before it is tried again; zero: the last piece came
  bool lookedAhead = false;      // to the files behind this one
  // Set when it is opened; null: no look-ahead waits for that.
  std::shared_ptr<Event> opened;

  [[nodiscard]] bool awaited() const { return readers.load() != 0 || expecting != 0; }
  [[nodiscard]] const ContentKey& key() const { return reference.about.key; }
  [[nodiscard]] std::uint64_t chunkOffset(std::uint32_t chunk) const {
    return std::uint64_t{chunk} * kChunkBytes;
  }
  [[nodiscard]] std::uint64_t chunkSize(std::uint32_t chunk) const {
    return std::min<std::uint64_t>(kChunkBytes, reference.about.size - chunkOffset(chunk));
  }
};

// All of it is here and, where its origin gives a digest, was compared with that: it may be given
// away as a file of the kernel's. Any thread.
[[nodiscard]] bool servableWhole(const FileFetch& fetch);

// Which chunks of a stripe the cache file has: bit i is chunk i. Says nothing about memory, so it
// does not convert to what the agent holds, which the directory is told.
struct ResidentChunks {
  ChunkMask onDisk = 0;
};
[[nodiscard]] ResidentChunks residentChunks(const CachedFile& file, std::uint32_t stripe);

}  // namespace hearth
