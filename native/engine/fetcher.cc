#include "engine/fetcher.h"

#include "base/crc32c.h"
#include "engine/chunk_retention.h"
#include "engine/directory_client.h"

namespace hearth {
namespace {

constexpr int kAttempts = 8;
constexpr auto kPeerPatience = std::chrono::seconds(40);
constexpr auto kFirstPause = std::chrono::milliseconds(5);

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

std::vector<std::uint32_t> checksumsOf(std::span<const std::byte> chunk) {
  std::vector<std::uint32_t> checksums;
  checksums.reserve((chunk.size() + kBlockBytes - 1) / kBlockBytes);
  for (std::size_t offset = 0; offset < chunk.size(); offset += kBlockBytes) {
    checksums.push_back(
        crc32c(chunk.subspan(offset, std::min<std::size_t>(kBlockBytes, chunk.size() - offset))));
  }
  return checksums;
}

}  // namespace

// One run on its way. Lives in run()'s frame.
struct Fetcher::RunState {
  Shard& shard;
  std::shared_ptr<FileFetch> fetch;
  ChunkRun chunks;
  FetchOptions options;
  // Those that this run was started for; a chunk that was lost again may have a newer one by now.
  std::vector<std::shared_ptr<ChunkFlight>> flights;
  bool abandoned = false;  // the job was cancelled while it was held back by its rate

  [[nodiscard]] ChunkFlight& flight(std::uint32_t chunk) const {
    return *flights[chunk - chunks.first];
  }
  // The chunk is here, or will not come: whoever waits for it may go on.
  void land(std::uint32_t chunk, const Status& status) {
    ChunkFlight& landing = flight(chunk);
    if (landing.landed.isSet()) return;
    landing.status = status;
    landing.abandoned = abandoned;
    landing.landed.set();
    const auto known = fetch->flights.find(chunk);
    if (known != fetch->flights.end() && known->second.get() == &landing)
      fetch->flights.erase(known);
  }
};

Task<Result<std::shared_ptr<FileFetch>>> Fetcher::open(FileReference reference) {
  if (auto known = find(reference.about.key)) {
    if (known->reference.about.size == reference.about.size) co_return known;
  }
  Task<Result<std::shared_ptr<CachedFile>>> acquiring = shard_.commons.cache->acquire(
      reference.about.key, reference.about.size, reference.about.executable);
  Result<std::shared_ptr<CachedFile>> acquired = co_await acquiring;
  if (!acquired.ok()) co_return acquired.error();
  // Another coroutine may have opened it while we waited.
  if (auto known = find(reference.about.key)) co_return known;
  if (wanted_.size() >= sweepAt_) {
    std::erase_if(wanted_, [](const auto& entry) { return entry.second.expired(); });
    sweepAt_ = std::max<std::size_t>(1024, 2 * wanted_.size());
  }
  const ContentKey key = reference.about.key;
  auto fetch =
      std::make_shared<FileFetch>(std::move(reference), std::move(*acquired), *shard_.reactor);
  wanted_[key] = fetch;
  co_return fetch;
}

std::shared_ptr<FileFetch> Fetcher::find(const ContentKey& key) {
  const auto found = wanted_.find(key);
  return found == wanted_.end() ? nullptr : found->second.lock();
}

AgentReport Fetcher::report(const ContentKey& key) {
  AgentReport report;
  std::shared_ptr<CachedFile> cached = shard_.commons.cache->find(key);
  const std::shared_ptr<FileFetch> fetch = find(key);
  if (fetch != nullptr) {
    report.wants = true;
    cached = fetch->cache;
    for (const auto& [chunk, flight] : fetch->flights) {
      if (flight->source.empty()) report.fetching.push_back(chunk / kChunksPerStripe);
    }
  }
  if (cached == nullptr) return report;
  for (std::uint32_t chunk = 0; chunk < cached->chunkCount(); ++chunk) {
    if (chunk % kChunksPerStripe == 0) report.held.push_back(0);
    if (cached->resident(chunk))
      report.held.back() |= static_cast<ChunkMask>(1u << (chunk % kChunksPerStripe));
  }
  return report;
}

Task<Status> Fetcher::ensure(std::shared_ptr<FileFetch> fetch, std::uint32_t first,
                             std::uint32_t end, FetchOptions options) {
  if (shard_.gate->closed()) co_return Error{ErrorCode::kCancelled, "the engine is shutting down"};
  std::vector<std::shared_ptr<ChunkFlight>> awaited;
  std::vector<ChunkRun> runs;
  for (std::uint32_t chunk = first; chunk < end; ++chunk) {
    if (fetch->cache->resident(chunk)) continue;
    const auto known = fetch->flights.find(chunk);
    if (known != fetch->flights.end()) {
      if (!options.onBehalfOf.empty() && known->second->source == options.onBehalfOf) {
        co_return Error{ErrorCode::kTryElsewhere, "this agent waits for the asker itself"};
      }
      awaited.push_back(known->second);
      continue;
    }
    auto flight = std::make_shared<ChunkFlight>(*shard_.reactor);
    fetch->flights.emplace(chunk, flight);
    awaited.push_back(std::move(flight));
    addToRuns(runs, chunk);
  }
  for (const ChunkRun& part : runs) shard_.gate->spawn(run(fetch, part, options));
  Status status;
  bool abandoned = false;
  for (const std::shared_ptr<ChunkFlight>& flight : awaited) {
    co_await flight->landed.wait();
    abandoned = abandoned || flight->abandoned;
    if (status.ok() && !flight->status.ok()) status = flight->status;
  }
  const bool ours = (options.rate && options.rate->cancelled()) ||
                    (options.peerRate && options.peerRate->cancelled());
  if (!abandoned || ours) co_return status;
  Task<Status> again = ensure(fetch, first, end, std::move(options));
  co_return co_await again;
}

Task<void> Fetcher::run(std::shared_ptr<FileFetch> fetch, ChunkRun chunks, FetchOptions options) {
  if (options.counters == nullptr) options.counters = fetch->counters;
  RunState state{shard_, std::move(fetch), chunks, std::move(options), {}, false};
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
  std::string avoid;
  Status last;
  auto pause = std::chrono::duration_cast<Clock::duration>(kFirstPause);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Task<LocateAnswer> locating =
        shard_.directory->locate(file.about.key, file.about.size, stripe, avoid);
    const LocateAnswer answer = co_await locating;
    avoid.clear();
    if (answer.granted && answer.holders.empty()) {
      Task<Status> fetching = fromOrigin(state);
      last = co_await fetching;
      if (!last.ok()) {
        shard_.directory->giveUp(file.about.key, file.about.size, stripe);
        co_return last;  // the origin client has tried again already
      }
    } else {
      Task<Status> fetching = fromPeers(state, answer, avoid);
      last = co_await fetching;
    }
    if (last.ok()) {
      shard_.directory->have(file.about.key, file.about.size, stripe, state.fetch->held(stripe));
      co_return last;
    }
    if (state.abandoned || !mayPass(last.code()) || shard_.gate->closed()) co_return last;
    co_await shard_.reactor->sleep(pause);
    pause *= 2;
  }
  co_return last.error().within("no agent gave the bytes");
}

Task<Status> Fetcher::fromOrigin(RunState& state) {
  // Runs are short: from the first chunk that is missing to the end, even if one between is here by
  // now.
  std::uint32_t first = state.chunks.first;
  while (first < state.chunks.end() && state.fetch->cache->resident(first)) ++first;
  if (first == state.chunks.end()) co_return Status();
  // Before the buffers: whoever is held back by a rate holds none of them.
  if (state.options.rate) {
    const std::uint64_t end = state.fetch->chunkOffset(state.chunks.end() - 1) +
                              state.fetch->chunkSize(state.chunks.end() - 1);
    Task<void> spending =
        state.options.rate->spend(*shard_.reactor, end - state.fetch->chunkOffset(first));
    co_await spending;
    if (state.options.rate->cancelled()) {
      state.abandoned = true;
      co_return Error{ErrorCode::kCancelled, "the job was cancelled"};
    }
  }
  auto acquiring = shard_.originBuffers->acquire(state.options.priority, state.chunks.end() - first,
                                                 state.options.rank);
  std::vector<ChunkBuffer> buffers = co_await acquiring;
  std::vector<std::shared_ptr<LoadedChunk>> chunks;
  for (std::uint32_t chunk = first; chunk < state.chunks.end(); ++chunk) {
    chunks.push_back(loadInto(*shard_.reactor, std::move(buffers[chunk - first]),
                              static_cast<std::size_t>(state.fetch->chunkSize(chunk))));
  }
  Task<Status> requesting = originRequest(state, first, chunks);
  const Status status = co_await requesting;
  const FileReference& file = state.fetch->reference;
  if (status.code() == ErrorCode::kOriginChanged) {
    shard_.commons.ask({.kind = Question::Kind::kOriginChanged,
                        .manifest = file.dataset->manifest->digest(),
                        .entries = {file.about.index},
                        .message = status.error().message});
  }
  if (!status.ok()) co_return status.error().within(file.path());
  co_return status;
}

Task<Status> Fetcher::originRequest(RunState& state, std::uint32_t first,
                                    std::span<const std::shared_ptr<LoadedChunk>> chunks) {
  const FileReference& file = state.fetch->reference;
  const OriginExpectation expectation = file.expectation();
  Gate storing(*shard_.reactor);
  std::vector<Status> stored(chunks.size());
  // What is here is not asked for again: its readers may be reading it. Only locations of HTTP
  // expire, and its chunks come in order.
  std::size_t here = 0;
  Status status;
  // A location that is refused is resolved anew once.
  for (int tries = 0; tries < 2 && here < chunks.size(); ++tries) {
    Task<Result<Location>> finding =
        file.dataset->locations.find(*shard_.reactor, file.about.index);
    Result<Location> location = co_await finding;
    if (!location.ok()) {
      status = location.error();
      break;
    }
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t at = here; at < chunks.size(); ++at) pieces.push_back(chunks[at]->bytes);
    const std::uint64_t start = file.about.objectOffset +
                                state.fetch->chunkOffset(first + static_cast<std::uint32_t>(here));
    std::function<void(std::size_t)> filled = [&, base = here](std::size_t piece) {
      const std::size_t at = base + piece;
      here = std::max(here, at + 1);
      const std::span<const std::byte> bytes = chunks[at]->bytes;
      shard_.commons.counters.originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
      if (state.options.counters)
        state.options.counters->originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
      storing.spawn(store(state, first + static_cast<std::uint32_t>(at), chunks[at],
                          checksumsOf(bytes), *shard_.originRetention, stored[at]));
    };
    Task<Status> fetching = shard_.origin->fetch(std::move(*location), expectation, start,
                                                 std::move(pieces), std::move(filled));
    status = co_await fetching;
    if (status.code() != ErrorCode::kLocationExpired) break;
    file.dataset->locations.expire(file.about.index);
  }
  Task<void> closing = storing.close();
  co_await closing;
  for (const Status& each : stored) {
    if (status.ok() && !each.ok()) status = each;
  }
  co_return status;
}

Task<Status> Fetcher::fromPeers(RunState& state, const LocateAnswer& answer, std::string& failed) {
  Gate reading(*shard_.reactor);
  std::vector<Status> statuses(state.chunks.count);
  std::vector<std::string> sources(state.chunks.count);
  for (std::uint32_t chunk = state.chunks.first; chunk < state.chunks.end(); ++chunk) {
    if (state.fetch->cache->resident(chunk)) continue;
    const std::uint32_t at = chunk - state.chunks.first;
    const ChunkMask bit = static_cast<ChunkMask>(1u << (chunk % kChunksPerStripe));
    for (const StripeHolder& holder : answer.holders) {
      if ((holder.chunks & bit) != 0 && holder.node != state.options.onBehalfOf) {
        sources[at] = holder.node;
        break;
      }
    }
    if (sources[at].empty() && !answer.granted) sources[at] = answer.fetcher;
    if (sources[at].empty()) continue;  // ours to fetch from the origin, below
    if (sources[at] == state.options.onBehalfOf) {
      statuses[at] = Error{ErrorCode::kTryElsewhere, "the asker itself fetches this stripe"};
      continue;
    }
    reading.spawn(readPeer(state, chunk, sources[at], statuses[at]));
  }
  Task<void> closing = reading.close();
  co_await closing;
  for (std::uint32_t at = 0; at < state.chunks.count; ++at) {
    if (statuses[at].ok()) continue;
    failed = sources[at];
    co_return statuses[at];
  }
  // The grant is ours for what no holder has.
  Task<Status> fetching = fromOrigin(state);
  co_return co_await fetching;
}

Task<void> Fetcher::readPeer(RunState& state, std::uint32_t chunk, std::string node,
                             Status& status) {
  state.flight(chunk).source = node;
  if (state.options.peerRate) {
    Task<void> spending =
        state.options.peerRate->spend(*state.shard.reactor, state.fetch->chunkSize(chunk));
    co_await spending;
    if (state.options.peerRate->cancelled()) {
      state.abandoned = true;
      state.flight(chunk).source.clear();
      status = Error{ErrorCode::kCancelled, "the job was cancelled"};
      co_return;
    }
  }
  auto acquiring = state.shard.peerBuffers->acquire(state.options.priority, 1, state.options.rank);
  std::vector<ChunkBuffer> buffer = co_await acquiring;
  const auto loaded = loadInto(*state.shard.reactor, std::move(buffer.front()),
                               static_cast<std::size_t>(state.fetch->chunkSize(chunk)));
  const std::span<std::byte> memory = loaded->bytes;
  std::vector<std::uint32_t> checksums;
  Task<Status> reading =
      state.shard.transport->read(node, state.fetch->key(), state.fetch->chunkOffset(chunk), memory,
                                  checksums, Clock::now() + kPeerPatience);
  status = co_await reading;
  if (!status.ok()) {
    state.flight(chunk).source.clear();
    co_return;
  }
  state.shard.commons.counters.peerBytes.fetch_add(memory.size(), std::memory_order_relaxed);
  if (state.options.counters)
    state.options.counters->peerBytes.fetch_add(memory.size(), std::memory_order_relaxed);
  Task<void> storing =
      store(state, chunk, loaded, std::move(checksums), *state.shard.peerRetention, status);
  co_await storing;
}

Task<void> Fetcher::store(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
                          std::vector<std::uint32_t> checksums, ChunkRetention& retention,
                          Status& status) {
  if (!state.fetch->cache->resident(chunk)) {
    Task<Status> writing = state.fetch->cache->writeChunk(chunk, loaded->bytes, checksums);
    status = co_await writing;
    if (status.ok()) retention.keep(state.fetch, chunk, std::move(loaded));
  }
  if (status.ok()) state.land(chunk, status);
}

}  // namespace hearth
