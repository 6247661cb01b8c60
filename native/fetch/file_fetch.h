// A shard's state of one content key that this agent wants. KeyFetch has the cache file and the
// chunks under way, for all datasets; FileFetch has the reference by which one dataset fetches the
// key. The key is "wanted" while its KeyFetch lives; the key directory counts it as wanted only
// while chunks are on their way, as reading through brings none. Used on the key's shard, except
// for members marked "any thread".
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/content_cache.h"
#include "dataset/dataset.h"
#include "directory/key_directory.h"
#include "fetch/chunk_flight.h"
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

// Adds `chunk` to the last run if one request can bring both; else begins a new run.
void addToRuns(std::vector<ChunkRun>& runs, std::uint32_t chunk);

// Bytes of one piece of work, by the place that they came from. Any thread.
struct FetchCounters {
  std::atomic<std::uint64_t> originBytes{0};
  std::atomic<std::uint64_t> peerBytes{0};
};

struct FileFetch;

struct KeyFetch {
  // `inMemory`: the key's chunks in memory (MemoryTier::open).
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

  // The FileVerifier's hash of a file whose origin gives a digest; null until a chunk came.
  std::shared_ptr<InOrderHash> hash;
  // The sources that gave the bytes, and the order of asking once they were wrong. Not null.
  std::shared_ptr<SourceRounds> rounds = std::make_shared<SourceRounds>();
  // Requests to origins whose givers `rounds` does not know yet, though their chunks may be here.
  // `noted`, if not null, is set when none is left.
  int requests = 0;
  Event* noted = nullptr;

  // Set when a comparison of what is here with the origin has ended; null: there is none.
  std::shared_ptr<Event> comparing;

  // True: readers of any dataset read the file or are expected to.
  [[nodiscard]] bool awaited() const;
  // True: chunks are on their way into memory.
  [[nodiscard]] bool coming() const;
  // A chunk that has landed and is being written to the cache file; else null.
  [[nodiscard]] std::shared_ptr<LoadedChunk> storing(std::uint32_t chunk) const;
  // Bit i: chunk i of the stripe is here, in the cache file or on its way there from memory.
  [[nodiscard]] ChunkMask held(std::uint32_t stripe) const;
  // Ends the flight (ChunkFlight::end) and forgets it.
  void end(std::uint32_t chunk, ChunkFlight& flight, ChunkFlight::Reason reason,
           const Status& status);
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

  // Counters of the warm job that fills this file, also for fetches that peers cause; may be null.
  std::shared_ptr<FetchCounters> counters;

  Refusal refusal;  // by the origin, lately

  // Read-ahead: chunks up to the horizon are fetched in the background while a reader goes through
  // the file or is expected to.
  std::atomic<std::uint32_t> readers{0};  // that have it open and have begun to read; any thread
  std::atomic<std::uint32_t> reading{0};  // the chunk read last; any thread
  std::uint32_t expecting = 0;            // look-aheads of readers on their way here
  std::shared_ptr<LookAhead> lookAhead;   // the last of these, until its reader has come
  std::uint32_t cursor = 0;
  std::uint32_t horizon = 0;
  bool prefetching = false;
  Clock::duration aheadPause{};  // before it is tried again; zero: the last piece came
  bool lookedAhead = false;      // to the files behind this one
  // Set when the file is opened; null: no look-ahead waits for that.
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

// True: the cache file is complete and, where the origin gives a digest, was compared with it, so
// that the kernel may have the file. Any thread.
[[nodiscard]] bool servableWhole(const FileFetch& fetch);

// Chunks of a stripe in the cache file: bit i is chunk i. Does not convert to the mask of chunks
// that the directory is told, which covers memory, too.
struct ResidentChunks {
  ChunkMask onDisk = 0;
};
[[nodiscard]] ResidentChunks residentChunks(const CachedFile& file, std::uint32_t stripe);

}  // namespace hearth
