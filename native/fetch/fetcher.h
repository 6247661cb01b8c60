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
#include "fetch/peer_read_slot.h"
#include "fetch/rate_limiter.h"
#include "fetch/write_back.h"

namespace hearth {

class OriginStream;
class SourceRequest;

struct FetchOptions {
  Priority priority = Priority::kDemand;
  std::uint32_t rank = 0;                   // of background work: the lowest first
  std::shared_ptr<RateLimiter> rate;        // of the origin; may be null
  std::shared_ptr<RateLimiter> peerRate;    // of what comes from peers; may be null
  std::shared_ptr<FetchCounters> counters;  // null: those of the file
  std::function<bool()> wanted;             // false: not any more; null: always
  // False: for readers, so that what cannot be kept is fetched only when they wait for it.
  bool keep = true;
  // What ensure() waits for.
  enum class Until { kInMemory, kStored };
  Until until = Until::kStored;
  // Brings the bytes where it comes to them next, instead of a request of their own; may be null.
  std::shared_ptr<OriginStream> stream;

  // What waits for its turn is given up.
  [[nodiscard]] bool unwanted() const {
    return (rate && rate->cancelled()) || (peerRate && peerRate->cancelled()) ||
           (wanted && !wanted());
  }
};

class Fetcher {
 public:
  // What `ports` refers to must remain live while this object is used.
  explicit Fetcher(FetchPorts ports);

  // Before the first file is opened; `observer` lives as long as files are fetched.
  void setObserver(FileObserver& observer) {
    observer_ = &observer;
    writeBack_.setObserver(observer);
  }

  // The key is wanted while the result lives, and fetched as the reference's dataset. The caller
  // has entered this shard.
  [[nodiscard]] Task<Result<std::shared_ptr<FileFetch>>> open(FileReference reference);

  // Ends when chunks [first, end) are in the cache, or in memory if that is enough, or with the
  // first error. What is on its way for another dataset is waited for, and fetched as our own when
  // it does not come. Demand raises what is on its way in the background: from then on it waits
  // neither for rates nor behind other background work. Errors: those of OriginClient, kOutOfSpace
  // and others of the cache directory's disk, kUnavailable when neither peers nor origin give the
  // bytes.
  [[nodiscard]] Task<Status> ensure(std::shared_ptr<FileFetch> fetch, std::uint32_t first,
                                    std::uint32_t end, FetchOptions options);

  // For a reader: ends when the bytes of a chunk are in memory, whether they can be kept or not;
  // null when they are in the cache. Errors: those of OriginClient, and kUnavailable.
  [[nodiscard]] Task<Result<std::shared_ptr<LoadedChunk>>> arrive(std::shared_ptr<FileFetch> fetch,
                                                                  std::uint32_t chunk);
  // What is not here sets out now. The flights of chunks [first, end) that are not in the cache.
  // `alone`: not those of other datasets.
  std::vector<std::shared_ptr<ChunkFlight>> begin(const std::shared_ptr<FileFetch>& fetch,
                                                  std::uint32_t first, std::uint32_t end,
                                                  const FetchOptions& options, bool alone = false);

  // Fills `into`, host memory, with [offset, offset + its size) of the file, for a reader who
  // waits. What is here is copied; what other agents hold is read from them straight into `into`,
  // with neither buffers nor the cache file in between, and not kept; what no agent holds comes by
  // arrive(), for all who will want it. After an error others may go on writing into `into` for as
  // long as its owners live. Errors: those of arrive(), kInvalidArgument for what is behind the
  // file's end, kUnsupported for memory that is out of reach.
  [[nodiscard]] Task<Status> readInto(std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                                      MemoryVector into);
  // What all of these may have under way here at a time.
  [[nodiscard]] DirectReadSlots& directReadSlots() { return directReadSlots_; }
  // What comes into memory from cache files.
  [[nodiscard]] CacheLoads& cacheLoads() { return cacheLoads_; }

  // Ends when the chunk, which we fetch from the origin or read from who holds it, is here, with
  // what that came to; whether we do is waited for while we ask the directory for it. kTryElsewhere
  // when it neither is here nor on its way: agents that waited for one another's waiting could wait
  // for ever.
  [[nodiscard]] Task<Status> awaitChunk(ContentKey key, std::uint32_t chunk);
  // Ends when the first `bytes` of a chunk that comes from the origin are here, with the chunk, in
  // which these and their checksums may be read; with null when it does not come from there, or
  // when they do not come soon.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> awaitFirst(std::shared_ptr<KeyFetch> fetch,
                                                              std::uint32_t chunk,
                                                              std::size_t bytes);

  // What moves bytes of the shard's files.
  [[nodiscard]] const ByteLanes& lanes() const { return ports_.lanes; }

  // True when one request may bring all of a file: none of the file is here or on its way, its
  // dataset has one source, and no other agent wants the same object. `origin`: bytes that the
  // origin gave for the same purpose so far; other agents would have shown by then.
  [[nodiscard]] bool mayStream(const FileFetch& fetch, std::uint64_t origin) const;
  // All of a file by one request, for FetchOptions::stream. Streams take the lanes in turn.
  [[nodiscard]] std::shared_ptr<OriginStream> stream(const FileFetch& fetch);

  // Any thread. What this node may take of what it shares with others.
  [[nodiscard]] NodeLimits& limits() const { return ports_.limits; }

  // Bytes that are in memory and not in the cache files yet.
  [[nodiscard]] std::uint64_t writeBackBytes() const { return writeBack_.bytes(); }

 private:
  struct RunState;
  class RunExecutor;
  class DirectRead;

  // One run each; their flights are under way already.
  void startRuns(const std::shared_ptr<FileFetch>& fetch, const std::vector<ChunkRun>& runs,
                 const FetchOptions& options);
  Task<void> run(std::shared_ptr<FileFetch> fetch, ChunkRun run, FetchOptions options,
                 std::shared_ptr<Urgency> urgency);
  // What was granted, into `memory`, which has a buffer for each chunk of the run.
  Task<Status> fromOrigin(RunState& state, ChunkMask granted, std::vector<ChunkBuffer> memory);
  // `chunks`: memory for the chunks from `first` on.
  Task<Status> originRequest(RunState& state, SourceRequest& request, std::uint32_t first,
                             std::span<const std::shared_ptr<LoadedChunk>> chunks);
  // Ends when the first of the chunks that are on their way to another agent is there. `failure`:
  // about who failed us.
  Task<Status> awaitFetcher(RunState& state, const StripeHolder& fetcher, FailureReport& failure);
  // What others hold.
  // `memory`: for as many of the chunks as the run has taken buffers for; the others wait for
  // theirs.
  Task<Status> fromPeers(RunState& state, const LocateAnswer& answer,
                         std::vector<ChunkBuffer> memory, FailureReport& failure);
  // `status`: of the reading; when the chunk could not be stored, that is in the run's `own`.
  struct ReadTerms {
    bool others = false;    // hold the chunk, too
    bool arriving = false;  // it is on its way to the agent from the origin
  };
  Task<void> readPeer(RunState& state, std::uint32_t chunk, std::string node, ReadTerms terms,
                      std::optional<ChunkBuffer> memory, Status& status);
  // The range of one chunk at once, or in pieces as they come where the chunk is `arriving` there.
  Task<Status> readRange(std::uint32_t chunk, PeerRange range, bool arriving,
                         std::vector<std::uint32_t>& checksums);
  Task<void> readPart(std::uint32_t chunk, PeerRange range, std::vector<std::uint32_t>& checksums,
                      Status& status);
  // Gives the chunk, which has its checksums, to its readers and to other agents, in memory, and
  // has it written behind them.
  void land(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
            BufferPool& pool);

  const FetchPorts ports_;
  FileObserver* observer_ = nullptr;
  WriteBack writeBack_;
  // Chunks that are read from peers in the background. Few, so that what comes from the origin at
  // the same time keeps its part of the link: an agent that fetched less than the others would give
  // less to them, too.
  PeerReadSlots peerReadSlots_;
  DirectReadSlots directReadSlots_;
  KnownHolders knownHolders_;
  CacheLoads cacheLoads_{ports_};
  std::size_t streams_ = 0;  // so far
};

}  // namespace hearth
