// Makes chunks resident: single flight for each chunk on this agent, the key's directory for single
// flight in the cluster, peers before the origin. One a shard; used on its thread only.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fetch/cache_loads.h"
#include "fetch/direct_read_slots.h"
#include "fetch/fetch_ports.h"
#include "fetch/file_fetch.h"
#include "fetch/known_holders.h"
#include "fetch/origin_wait.h"
#include "fetch/peer_read_slot.h"
#include "fetch/peer_standings.h"
#include "fetch/rate_limiter.h"
#include "fetch/write_back.h"

namespace hearth {

class OriginStream;
class SourceRequest;

struct FetchOptions {
  Priority priority = Priority::kDemand;
  std::uint32_t rank = 0;                   // of background work: the lowest first
  std::shared_ptr<RateLimiter> rate;        // of the origin; may be null
  std::shared_ptr<RateLimiter> peerRate;    // of bytes from peers; may be null
  std::shared_ptr<FetchCounters> counters;  // null: the file's
  std::function<bool()> wanted;             // false: not any more; null: always
  // False: for readers; a chunk that cannot be kept is fetched only while a reader waits for it.
  bool keep = true;
  // The state that ensure() waits for.
  enum class Until { kInMemory, kStored };
  Until until = Until::kStored;
  // For ensure(): how long it waits for an origin that is away.
  Clock::duration originWait{};
  // Brings the chunks that it comes to next, without requests of their own; may be null.
  std::shared_ptr<OriginStream> stream;

  // True: work that waits for its turn gives up.
  [[nodiscard]] bool unwanted() const {
    return (rate && rate->cancelled()) || (peerRate && peerRate->cancelled()) ||
           (wanted && !wanted());
  }
};

class Fetcher {
 public:
  // Everything that `ports` refers to must remain live while this object is used.
  explicit Fetcher(FetchPorts ports);

  // Call before the first open(). `observer` must live as long as files are fetched. Observers hear
  // of each chunk in the order in which they were added.
  void addObserver(FileObserver& observer) {
    observers_.push_back(&observer);
    writeBack_.addObserver(observer);
  }

  // Makes the key wanted while the result lives, fetched as the reference's dataset. The caller has
  // entered this shard.
  [[nodiscard]] Task<Result<std::shared_ptr<FileFetch>>> open(FileReference reference);

  // Ends when chunks [first, end) have reached `options.until`, or with the first error. Waits for
  // chunks that another dataset fetches, and fetches as its own those that do not come. Demand
  // raises flights of the background, which then wait neither for rates nor behind other background
  // work. Errors: those of OriginClient, kOutOfSpace and others of the cache directory's disk,
  // kUnavailable when neither peers nor origin give the bytes.
  [[nodiscard]] Task<Status> ensure(std::shared_ptr<FileFetch> fetch, std::uint32_t first,
                                    std::uint32_t end, FetchOptions options);

  // For a reader: ends when the chunk is in memory, even if it cannot be kept; null: the chunk is
  // in the cache. While the origin is away it waits for up to OriginAbsence::bound() of the
  // dataset, as long as the read is `wanted`. Errors: those of OriginClient, and kUnavailable.
  [[nodiscard]] Task<Result<std::shared_ptr<LoadedChunk>>> arrive(std::shared_ptr<FileFetch> fetch,
                                                                  std::uint32_t chunk,
                                                                  StillWanted wanted = nullptr);
  // Starts fetching every missing chunk in [first, end). Returns the flights of all chunks that are
  // not in the cache. `alone`: does not join flights of other datasets that have not landed.
  std::vector<std::shared_ptr<ChunkFlight>> begin(const std::shared_ptr<FileFetch>& fetch,
                                                  std::uint32_t first, std::uint32_t end,
                                                  const FetchOptions& options, bool alone = false);

  // Fills `into`, host memory, with the file's bytes from `offset` on, for a reader who waits.
  // Copies chunks that are here; reads chunks that other agents hold straight into `into`, past
  // buffers and the cache file, and does not keep them; gets all other chunks by arrive(). After an
  // error others may go on writing into `into` for as long as its owners live. Errors: those of
  // arrive(), kInvalidArgument for a range beyond the file's end, kUnsupported for memory out of
  // reach.
  [[nodiscard]] Task<Status> readInto(std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                      MemoryVector into);
  // Bounds all reads of readInto() on this shard.
  [[nodiscard]] DirectReadSlots& directReadSlots() { return directReadSlots_; }
  // Loads chunks of cache files into memory.
  [[nodiscard]] CacheLoads& cacheLoads() { return cacheLoads_; }

  // For another agent: waits until a chunk that we fetch or read has landed; first for the
  // directory's answer while we ask whether we may. kTryElsewhere, without a wait: the chunk is
  // neither here nor on its way; agents that waited for one another's waits could wait for ever.
  [[nodiscard]] Task<Status> awaitChunk(ContentKey key, std::uint32_t chunk);
  // Waits for the first `bytes` of a chunk that comes from the origin, and returns the chunk, of
  // which these and their checksums may be read. Null: the chunk does not come from the origin, or
  // the bytes do not come soon.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> awaitFirst(std::shared_ptr<KeyFetch> fetch,
                                                              std::uint32_t chunk,
                                                              std::size_t bytes);

  // The lanes that move bytes of the shard's files.
  [[nodiscard]] const ByteLanes& lanes() const { return ports_.lanes; }

  // True when one request may bring all of a file: none of the file is here or on its way, its
  // dataset has one source, and no other agent wants the same object. `origin`: bytes that the
  // origin gave for the same purpose so far; other agents would have shown by then.
  [[nodiscard]] bool mayStream(const FileFetch& fetch, std::uint64_t origin) const;
  // All of a file by one request, for FetchOptions::stream. Streams take the lanes in turn.
  [[nodiscard]] std::shared_ptr<OriginStream> stream(const FileFetch& fetch);
  // After a stream of the file has ended, and all runs have that took from it: where nothing shows
  // yet that all it gave is of one state, asks the origin. kOriginChanged: the object is another
  // one now, and nothing is here any more of the file. Bytes of an origin that does not answer
  // stay: who fetches the rest names the same state to it.
  [[nodiscard]] Task<Status> prove(std::shared_ptr<FileFetch> fetch,
                                   std::shared_ptr<OriginStream> stream);

  // Any thread. The node's limits on resources that it shares with others.
  [[nodiscard]] NodeLimits& limits() const { return ports_.limits; }

  // Bytes that are in memory and not in the cache files yet.
  [[nodiscard]] std::uint64_t writeBackBytes() const { return writeBack_.bytes(); }

 private:
  struct RunState;
  class RunExecutor;
  class DirectRead;

  // Starts a coroutine for each run. The flights of the runs exist already.
  void startRuns(const std::shared_ptr<FileFetch>& fetch, const std::vector<ChunkRun>& runs,
                 const FetchOptions& options);
  Task<void> run(std::shared_ptr<FileFetch> fetch, ChunkRun run, FetchOptions options,
                 std::shared_ptr<Urgency> urgency);
  void reportChanged(const FileReference& file, const Error& why) const;
  // After the origin has said `changed` of a file: ok when that was its time of change alone, and
  // all bytes that are here of the file are the origin's. Else `changed`, or the error that kept
  // the bytes from being compared.
  Task<Status> compareTouched(std::shared_ptr<FileFetch> fetch, Error changed);
  Task<Status> equalsOrigin(std::shared_ptr<FileFetch> fetch, std::int64_t changedNs);
  // Fetches the granted chunks into `memory`, which has a buffer for each chunk of the run.
  Task<Status> fromOrigin(RunState& state, ChunkMask granted, std::vector<ChunkBuffer> memory);
  // The same from the agent of `node`. Waits for a holder that is about to have the bytes.
  Task<Status> fromHolder(RunState& state, ChunkMask granted, std::vector<ChunkBuffer> memory,
                          std::string node);
  // The same for a file of a volume: from the node that its location names. kOriginChanged when the
  // volume does not have this content of the file any more, which is reported.
  Task<Status> fromVolume(RunState& state, ChunkMask granted, std::vector<ChunkBuffer> memory);
  // This node wrote the file: waits for a moment until the cache has taken it in.
  Task<Status> awaitSealed(RunState& state);
  // `chunks`: memory for the chunks from `first` on.
  Task<Status> originRequest(RunState& state, SourceRequest& request, std::uint32_t first,
                             std::span<const std::shared_ptr<LoadedChunk>> chunks);
  // Waits until the first of the chunks on their way to another agent is there. `failure`: filled
  // in when that agent failed us.
  Task<Status> awaitFetcher(RunState& state, const StripeHolder& fetcher, FailureReport& failure);
  // Reads chunks that other agents hold. `memory`: buffers that the run has taken already; the
  // other chunks wait for theirs.
  Task<Status> fromPeers(RunState& state, const LocateAnswer& answer,
                         std::vector<ChunkBuffer> memory, FailureReport& failure);
  // The directory's answer about one chunk.
  struct ReadTerms {
    bool others = false;    // other agents hold the chunk, too
    bool arriving = false;  // it is on its way to the agent from the origin
    bool granted = false;   // read as from an origin, into memory for that
  };
  // Where other agents hold the chunk, too, it ends with kDeadlineExceeded when the bytes do not
  // come soon; they may still come, and are then taken in if no other agent has given them.
  Task<void> readPeer(RunState& state, std::uint32_t chunk, std::string node, ReadTerms terms,
                      std::optional<ChunkBuffer> memory, Status& status);
  // One read of a whole chunk from another agent.
  struct PeerRead;
  Task<void> carryOut(std::shared_ptr<PeerRead> read, PeerRange range);
  // Reads the range of one chunk at once, or in pieces where the chunk is `arriving` at the peer.
  Task<Status> readRange(std::uint32_t chunk, PeerRange range, bool arriving,
                         std::vector<std::uint32_t>& checksums);
  Task<void> readPart(std::uint32_t chunk, PeerRange range, std::vector<std::uint32_t>& checksums,
                      Status& status);
  // Gives the chunk, which has its checksums, to readers and other agents from memory, and queues
  // it for write-back.
  void land(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
            BufferPool& pool);

  const FetchPorts ports_;
  std::vector<FileObserver*> observers_;
  WriteBack writeBack_;
  // Background reads from peers. Few, so that fetches from the origin keep their part of the link:
  // an agent that fetched less than the others would give less to them, too.
  PeerReadSlots peerReadSlots_;
  PeerStandings peerStandings_;
  DirectReadSlots directReadSlots_;
  KnownHolders knownHolders_;
  CacheLoads cacheLoads_{ports_};
  std::size_t streams_ = 0;  // so far
};

}  // namespace hearth
