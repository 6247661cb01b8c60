#include "engine/fetcher.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "engine/directory_client.h"
#include "engine/fetch_run.h"
#include "engine/file_verifier.h"

namespace hearth {
namespace {

// Between attempts. They go on for kPeerPatience: where links are full an agent may hear seconds
// after the others what the directory has given to it.
constexpr Clock::duration kFirstPause = std::chrono::milliseconds(5);
constexpr Clock::duration kLongestPause = std::chrono::milliseconds(250);
// Read from peers at the same time, for nobody who waits.
constexpr std::uint32_t kPeerChunks = 6;
constexpr std::uint32_t kManySharers = 4;
// How often who waits for a turn looks whether another agent has come first.
constexpr auto kLookAgain = std::chrono::milliseconds(250);

// Errors that another agent, or the origin, may not give.
bool mayPass(ErrorCode code) {
  switch (code) {
    case ErrorCode::kTryElsewhere:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kCorrupt:
    case ErrorCode::kProtocolError:
    case ErrorCode::kCancelled:
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kOutOfSpace:
    case ErrorCode::kIoError:
    case ErrorCode::kInternal:
      return true;
    default:
      return false;
  }
}

// What `shared` is for the dataset and entry of `reference`.
std::shared_ptr<FileFetch> fileOf(const std::shared_ptr<KeyFetch>& shared,
                                  FileReference reference) {
  std::erase_if(shared->files, [](const auto& file) { return file.expired(); });
  for (const std::weak_ptr<FileFetch>& each : shared->files) {
    auto file = each.lock();
    const bool same = file != nullptr && file->reference.dataset == reference.dataset &&
                      file->reference.about.index == reference.about.index;
    if (same) return file;
  }
  auto file = std::make_shared<FileFetch>(std::move(reference), shared);
  shared->files.push_back(file);
  return file;
}

// What a run ends with that gave way to others until its time was over; others as they are.
Status tooSlow(const Status& fetched) {
  if (fetched.code() != ErrorCode::kTryElsewhere) return fetched;
  return Error{ErrorCode::kDeadlineExceeded,
               fetched.error().message +
                   "; given up after ten minutes: check the origin, and the network to it"};
}

Error shuttingDown() { return {ErrorCode::kCancelled, "the engine is shutting down"}; }

// The first of its chunks alone.
StripeHolder firstOf(const StripeHolder& agent) {
  return {agent.node, static_cast<ChunkMask>(agent.chunks & -agent.chunks)};
}

}  // namespace

Fetcher::Fetcher(Shard& shard) : shard_(shard), peerPlaces_(*shard.reactor, kPeerChunks) {}

Task<Result<std::shared_ptr<FileFetch>>> Fetcher::open(FileReference reference) {
  if (shard_.commons.refusals.refuses(reference.about.key))
    co_return DigestRefusals::error().within(reference.path());
  if (const auto known = find(reference.about.key)) {
    if (known->cache->size() == reference.about.size) co_return fileOf(known, std::move(reference));
  }
  Task<Result<std::shared_ptr<CachedFile>>> acquiring = shard_.commons.cache->acquire(
      reference.about.key, reference.about.size, reference.about.executable);
  Result<std::shared_ptr<CachedFile>> acquired = co_await acquiring;
  if (!acquired.ok()) co_return acquired.error();
  // Another coroutine may have opened it while we waited.
  if (const auto known = find(reference.about.key)) {
    co_return fileOf(known, std::move(reference));
  }
  if (wanted_.size() >= sweepAt_) {
    std::erase_if(wanted_, [](const auto& entry) { return entry.second.expired(); });
    sweepAt_ = std::max<std::size_t>(1024, 2 * wanted_.size());
  }
  const ContentKey key = reference.about.key;
  const auto shared = std::make_shared<KeyFetch>(std::move(*acquired));
  shared->fromOriginAlone = shard_.commons.refusals.differed(key);
  wanted_[key] = shared;
  const std::shared_ptr<FileFetch> fetch = fileOf(shared, std::move(reference));
  shard_.verifier->begin(fetch);
  co_return fetch;
}

std::shared_ptr<KeyFetch> Fetcher::find(const ContentKey& key) {
  const auto found = wanted_.find(key);
  return found == wanted_.end() ? nullptr : found->second.lock();
}

AgentReport Fetcher::report(const ContentKey& key) {
  AgentReport report;
  std::shared_ptr<CachedFile> cached = shard_.commons.cache->find(key);
  const std::shared_ptr<KeyFetch> fetch = find(key);
  if (fetch != nullptr) {
    report.wants = true;
    cached = fetch->cache;
    for (const auto& [chunk, flight] : fetch->flights) {
      if (flight->fromOrigin) report.fetching.push_back(chunk);
    }
  }
  if (cached == nullptr) return report;
  const std::uint32_t chunks = cached->chunkCount();
  for (std::uint32_t stripe = 0; stripe * kChunksPerStripe < chunks; ++stripe) {
    report.held.push_back(heldOf(*cached, stripe));
  }
  return report;
}

Task<Status> Fetcher::ensure(std::shared_ptr<FileFetch> fetch, std::uint32_t first,
                             std::uint32_t end, FetchOptions options) {
  if (shard_.gate->closed()) co_return shuttingDown();
  if (shard_.commons.refusals.refuses(fetch->key()))
    co_return DigestRefusals::error().within(fetch->reference.path());
  const std::shared_ptr<const Dataset> ours = fetch->reference.dataset;
  for (bool alone = false;; alone = true) {
    const auto awaited = begin(fetch, first, end, options, alone);
    Status status;
    bool again = false;
    for (const std::shared_ptr<ChunkFlight>& flight : awaited) {
      co_await flight->landed.wait();
      if (flight->status.ok()) continue;
      // What another dataset's credentials did not get, or another reader or job has given up, or
      // nobody wanted to keep.
      const bool givenUp = flight->abandoned && !options.unwanted();
      const bool notTried = options.keep && (flight->declined || flight->forgone);
      if (flight->dataset != ours || givenUp || notTried) {
        again = true;
      } else if (status.ok()) {
        status = flight->status;
      }
    }
    if (!again || !status.ok()) co_return status;
    if (shard_.gate->closed()) co_return shuttingDown();
  }
}

std::vector<std::shared_ptr<ChunkFlight>> Fetcher::begin(const std::shared_ptr<FileFetch>& fetch,
                                                         std::uint32_t first, std::uint32_t end,
                                                         const FetchOptions& options, bool alone) {
  const std::shared_ptr<const Dataset> ours = fetch->reference.dataset;
  std::vector<std::shared_ptr<ChunkFlight>> awaited;
  std::vector<ChunkRun> runs;
  for (std::uint32_t chunk = first; chunk < end; ++chunk) {
    if (fetch->cache->resident(chunk)) continue;
    std::shared_ptr<ChunkFlight>& flight = fetch->flights[chunk];
    if (flight == nullptr || (alone && flight->dataset != ours)) {
      flight = std::make_shared<ChunkFlight>(*shard_.reactor, ours);
      addToRuns(runs, chunk);
    } else if (options.priority == Priority::kDemand) {
      flight->urgency->raise();
    }
    flight->toKeep = flight->toKeep || options.keep;
    awaited.push_back(flight);
  }
  startRuns(fetch, runs, options);
  return awaited;
}

Task<Result<std::shared_ptr<LoadedChunk>>> Fetcher::arrive(std::shared_ptr<FileFetch> fetch,
                                                           std::uint32_t chunk) {
  for (bool alone = false; !shard_.gate->closed();) {
    if (shard_.commons.refusals.refuses(fetch->key()))
      co_return DigestRefusals::error().within(fetch->reference.path());
    if (auto here = fetch->loaded.find(chunk)) co_return here;
    if (fetch->cache->resident(chunk)) co_return std::shared_ptr<LoadedChunk>();
    FetchOptions options;
    options.keep = false;
    const auto begun = begin(fetch, chunk, chunk + 1, options, alone);
    const std::shared_ptr<ChunkFlight> flight = begun.front();
    ++flight->readers;
    co_await flight->arrived.wait();
    auto loaded = flight->loaded;
    if (--flight->readers == 0) flight->loaded.reset();
    if (loaded != nullptr) co_return loaded;
    alone = flight->dataset != fetch->reference.dataset;
    // It came before we waited, and was not kept: it is in memory still, or comes again.
    const bool missed = flight->status.code() == ErrorCode::kOutOfSpace;
    const bool again =
        alone || missed || flight->status.ok() || flight->abandoned || flight->forgone;
    if (!again) co_return flight->status.error();
  }
  co_return shuttingDown();
}

Task<Status> Fetcher::awaitChunk(ContentKey key, std::uint32_t chunk) {
  const std::shared_ptr<KeyFetch> fetch = find(key);
  const std::shared_ptr<CachedFile> file =
      fetch != nullptr ? fetch->cache : shard_.commons.cache->find(key);
  if (file != nullptr && chunk < file->chunkCount() && file->resident(chunk)) co_return Status();
  if (fetch != nullptr) {
    const auto known = fetch->flights.find(chunk);
    if (known != fetch->flights.end() && known->second->underWay()) {
      const std::shared_ptr<ChunkFlight> flight = known->second;
      co_await flight->landed.wait();
      if (flight->status.ok()) co_return flight->status;
    }
  }
  co_return Error{ErrorCode::kTryElsewhere, "the chunk is not on its way to this agent"};
}

void Fetcher::startRuns(const std::shared_ptr<FileFetch>& fetch, const std::vector<ChunkRun>& runs,
                        const FetchOptions& options) {
  std::vector<std::shared_ptr<Urgency>> urgencies;
  for (const ChunkRun& part : runs) {
    urgencies.push_back(std::make_shared<Urgency>(options.priority));
    for (std::uint32_t chunk = part.first; chunk < part.end(); ++chunk) {
      fetch->flights.at(chunk)->urgency = urgencies.back();
    }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    shard_.gate->spawn(run(fetch, runs[i], options, urgencies[i]));
  }
}

Task<void> Fetcher::run(std::shared_ptr<FileFetch> fetch, ChunkRun chunks, FetchOptions options,
                        std::shared_ptr<Urgency> urgency) {
  if (options.counters == nullptr) options.counters = fetch->counters;
  RunState state{shard_, std::move(fetch), chunks, std::move(options), std::move(urgency), {}};
  for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    state.flights.push_back(state.fetch->flights.at(chunk));
  }
  Task<Status> fetching = fetchRun(state);
  const Status status = co_await fetching;
  for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) state.land(chunk, status);
}

Task<Status> Fetcher::fetchRun(RunState& state) {
  const FileReference& file = state.fetch->reference;
  const std::uint32_t stripe = state.chunks.stripe();
  OriginTurns& turns = file.dataset->originTurns;
  RateAllowance ofOrigin(state.options.rate.get()), ofPeers(state.options.peerRate.get());
  OriginTurns::Turn turn;
  const Urgency::Watch raised(*state.urgency, [&turn] { turn.force(); });
  PeerPlace place(peerPlaces_);
  std::uint32_t sharers = 1;
  Complaint complaint;
  StripeHolder come;  // what came to an agent that we waited for
  Clock::duration pause = kFirstPause;
  std::optional<Clock::time_point> failing;
  while (!shard_.gate->closed()) {
    ChunkMask missing = state.missing();
    if (missing == 0) co_return Status();
    if (state.fetch->shared->fromOriginAlone) {
      Task<std::vector<ChunkBuffer>> acquiring = shard_.originBuffers->acquire(
          *state.urgency, state.chunks.count, state.options.rank, file.dataset->id);
      std::vector<ChunkBuffer> own = co_await acquiring;
      Task<Status> fetching = fromOrigin(state, missing, std::move(own));
      const Status fetched = co_await fetching;
      if (fetched.ok() || state.queuesAgain(fetched)) continue;
      co_return tooSlow(fetched);
    }
    // Chunk by chunk where many share: the sooner one has come in, the sooner it goes on.
    if (sharers >= kManySharers && !state.demand()) missing &= static_cast<ChunkMask>(-missing);
    if (state.unwanted()) {
      state.abandoned = true;
      co_return Error{ErrorCode::kCancelled, "nobody wants the bytes any more"};
    }
    const bool through = state.through();
    if (through && state.unawaited()) {
      state.forgone = true;
      co_return Error{ErrorCode::kOutOfSpace, "there is no room for what nobody waits for yet"};
    }
    const bool mayFetch = ofOrigin.given() || state.demand();
    if (!turn.asked() && !place.held() && mayFetch) {
      turn = state.demand() ? turns.force(*shard_.reactor, state.bytes())
                            : turns.ask(*shard_.reactor, state.bytes());
    }
    // What is granted must come in soon: it is asked for when there is memory for it.
    std::vector<ChunkBuffer> memory;
    if (turn.held()) {
      Task<std::vector<ChunkBuffer>> acquiring = shard_.originBuffers->acquire(
          *state.urgency, state.chunks.count, state.options.rank, file.dataset->id);
      memory = co_await acquiring;
    }
    const Intent intent = memory.empty() ? (place.held() ? Intent::kRead : Intent::kLook)
                          : through      ? Intent::kLook
                                         : Intent::kFetch;
    state.named = state.named || intent != Intent::kLook;
    Task<LocateAnswer> locating = shard_.directory->locate(file.about.key, file.about.size, stripe,
                                                           missing, intent, complaint);
    LocateAnswer answer = co_await locating;
    complaint = {};
    // The directory may not have heard of it yet.
    if (answer.holders.empty() && !answer.fetchers.empty() &&
        firstOf(answer.fetchers.front()) == come) {
      answer.holders.push_back(come);
    }
    const bool nowhere = answer.holders.empty() && answer.fetchers.empty();
    if (through && nowhere && !memory.empty()) answer.granted = missing;
    sharers = answer.sharers;
    turns.setSharers(sharers);
    if (answer.granted != 0) {
      ofOrigin.use(state.bytes());
      Task<Status> fetching = fromOrigin(state, answer.granted, std::move(memory));
      const Status fetched = co_await fetching;
      turn.end(fetched.ok() ? state.bytes() : 0);
      if (fetched.ok()) continue;
      shard_.directory->giveUp(file.about.key, file.about.size, stripe, answer.granted);
      if (state.queuesAgain(fetched)) continue;
      co_return tooSlow(fetched);  // other failures the origin client has tried again already
    }
    memory.clear();
    if (answer.holders.empty() && answer.fetchers.empty()) {
      place.leave();
      if (mayFetch && !turn.asked()) continue;
      Task<void> waiting = mayFetch
                               ? turn.wait(Clock::now() + kLookAgain)
                               : ofOrigin.spend(*shard_.reactor, state.bytes(), *state.urgency);
      co_await waiting;
      continue;
    }
    turn.end();
    Status read;
    if (answer.holders.empty()) {
      place.leave();
      come = firstOf(answer.fetchers.front());
      Task<Status> awaiting = awaitFetcher(state, come, complaint);
      read = co_await awaiting;
    } else {
      if (!state.demand() && !place.held()) {
        if (!ofPeers.given()) {
          Task<void> spending = ofPeers.spend(*shard_.reactor, state.bytes(), *state.urgency);
          co_await spending;
        }
        Task<void> taking =
            place.take(*state.urgency, static_cast<std::uint32_t>(std::popcount(missing)));
        co_await taking;
        continue;  // and read at once from who is the best to read from then
      }
      ofPeers.use(state.bytes());
      Task<Status> reading = fromPeers(state, answer, complaint);
      read = co_await reading;
      place.leave();
    }
    if (read.ok()) {
      failing.reset();
      pause = kFirstPause;
      continue;
    }
    come = {};
    if (!mayPass(read.code())) co_return read;
    if (!failing) failing = Clock::now();
    if (Clock::now() - *failing > kPeerPatience) {
      co_return read.error().within("no agent gave the bytes");
    }
    co_await shard_.reactor->sleep(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  co_return shuttingDown();
}

}  // namespace hearth
