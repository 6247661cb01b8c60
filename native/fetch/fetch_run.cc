// How the chunks of a run come: from the origin, or from agents that have them.
#include "fetch/fetch_run.h"

#include <bit>

#include "base/crc32c.h"

namespace hearth {

Task<Status> Fetcher::fromOrigin(RunState& state, ChunkMask granted,
                                 std::vector<ChunkBuffer> memory) {
  const FileReference& file = state.fetch->reference;
  if (auto refused = state.fetch->refusal.holds(file.dataset->locations)) co_return *refused;
  const std::uint64_t version = file.dataset->locations.version();
  // One request: up to the first chunk that is not ours.
  std::uint32_t first = state.chunks.first;
  while ((granted & bitOf(first)) == 0) ++first;
  std::uint32_t end = first;
  while (end < state.chunks.end() && (granted & bitOf(end)) != 0) {
    state.flight(end++).fromOrigin = state.named;
  }
  std::vector<std::shared_ptr<LoadedChunk>> chunks;
  for (std::uint32_t chunk = first; chunk < end; ++chunk) {
    chunks.push_back(loadInto(ports_.reactor, std::move(memory[chunk - first]),
                              static_cast<std::size_t>(state.fetch->chunkSize(chunk))));
  }
  const Status status = co_await originRequest(state, first, chunks);
  if (status.code() == ErrorCode::kOriginChanged) {
    ports_.events({.kind = EngineEvent::Kind::kOriginChanged,
                   .manifest = file.dataset->manifest->digest(),
                   .dataset = file.dataset->id,
                   .entries = {file.about.index},
                   .message = status.error().message});
  }
  if (status.ok()) co_return status;
  const Error failed = status.error().within(file.path());
  state.fetch->refusal.note(failed, version);
  co_return failed;
}

Task<Status> Fetcher::originRequest(RunState& state, std::uint32_t first,
                                    std::span<const std::shared_ptr<LoadedChunk>> chunks) {
  const FileReference& file = state.fetch->reference;
  const OriginExpectation expectation = file.expectation();
  Gate storing(ports_.reactor);
  // What is here is not asked for again: its readers may be reading it. Only locations of HTTP
  // expire, and its chunks come in order.
  std::size_t here = 0;
  Status status;
  // A location that is refused is resolved again once.
  for (int tries = 0; tries < 2 && here < chunks.size(); ++tries) {
    Result<Location> location =
        co_await file.dataset->locations.find(ports_.reactor, file.about.index);
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
      ports_.counters.originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
      if (state.options.counters)
        state.options.counters->originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
      storing.spawn(store(state, first + static_cast<std::uint32_t>(at), chunks[at],
                          crc32cOfBlocks(bytes, kBlockBytes), ports_.ofOrigin.retention));
    };
    status = co_await ports_.origin.fetch(std::move(*location), expectation, start,
                                          std::move(pieces), std::move(filled));
    if (status.code() != ErrorCode::kLocationExpired) break;
    file.dataset->locations.expire(file.about.index);
  }
  co_await storing.close();
  co_return status;
}

Task<Status> Fetcher::awaitFetcher(RunState& state, const StripeHolder& fetcher,
                                   FailureReport& failure) {
  const FileReference& file = state.fetch->reference;
  const std::uint32_t chunk = state.chunks.stripe() * kChunksPerStripe +
                              static_cast<std::uint32_t>(std::countr_zero(fetcher.chunks));
  Task<Status> awaiting =
      ports_.directory.awaitChunk(fetcher.node, file.about.key, file.about.size, chunk,
                                  RequestTimeouts(Clock::now() + kPeerTimeout, kSilenceAlone));
  const Status awaited = co_await awaiting;
  if (awaited.ok()) co_return awaited;
  failure = failureReportOf(fetcher.node, false, awaited);
  // It may fetch as another dataset: what the origin answered it says nothing about us.
  if (awaited.code() == ErrorCode::kDeadlineExceeded) co_return awaited;
  co_return Error{ErrorCode::kTryElsewhere, awaited.error().message};
}

Task<Status> Fetcher::fromPeers(RunState& state, const LocateAnswer& answer,
                                FailureReport& failure) {
  Gate reading(ports_.reactor);
  std::vector<Status> statuses(state.chunks.count);
  for (std::uint32_t chunk = state.chunks.first; chunk < state.chunks.end(); ++chunk) {
    const std::string& holder = answer.holderOf(chunk);
    if (holder.empty() || state.fetch->cache->resident(chunk)) continue;
    const bool others = (answer.elsewhere & bitOf(chunk)) != 0;
    reading.spawn(readPeer(state, chunk, holder, others, statuses[chunk - state.chunks.first]));
  }
  co_await reading.close();
  for (std::uint32_t at = 0; at < state.chunks.count; ++at) {
    if (statuses[at].ok()) continue;
    failure = failureReportOf(answer.holderOf(state.chunks.first + at), true, statuses[at]);
    co_return statuses[at];
  }
  co_return Status();
}

void Fetcher::reportHeld(const RunState& state) {
  const FileReference& file = state.fetch->reference;
  const std::uint32_t stripe = state.chunks.stripe();
  const ChunkMask held = heldOf(*state.fetch->cache, stripe);
  if (held != 0) {
    ports_.directory.have(file.about.key, file.about.size, stripe, held);
  }
}

Task<void> Fetcher::readPeer(RunState& state, std::uint32_t chunk, std::string node, bool others,
                             Status& status) {
  state.flight(chunk).fromPeer = true;
  Task<std::vector<ChunkBuffer>> acquiring =
      ports_.ofPeers.buffers.acquire(*state.urgency, 1, state.options.rank);
  std::vector<ChunkBuffer> buffer = co_await acquiring;
  const auto loaded = loadInto(ports_.reactor, std::move(buffer.front()),
                               static_cast<std::size_t>(state.fetch->chunkSize(chunk)));
  const std::span<std::byte> memory = loaded->bytes;
  std::vector<std::uint32_t> checksums;
  const RequestTimeouts timeouts(Clock::now() + kPeerTimeout,
                                 others ? Clock::duration(kSilenceWithOthers) : kSilenceAlone);
  Task<Status> reading =
      ports_.transport.read(node, state.fetch->key(), state.fetch->chunkOffset(chunk),
                            loaded->buffer.slice(memory.size(), loaded), checksums, timeouts,
                            state.demand() ? RequestClass::kDemand : RequestClass::kWarm);
  status = co_await reading;
  if (!status.ok()) {
    state.flight(chunk).fromPeer = false;
    state.flight(chunk).leave();
    co_return;
  }
  ports_.counters.peerBytes.fetch_add(memory.size(), std::memory_order_relaxed);
  if (state.options.counters)
    state.options.counters->peerBytes.fetch_add(memory.size(), std::memory_order_relaxed);
  co_await store(state, chunk, loaded, std::move(checksums), ports_.ofPeers.retention);
}

Task<void> Fetcher::store(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
                          std::vector<std::uint32_t> checksums, ChunkRetention& retention) {
  CachedFile& cache = *state.fetch->cache;
  ChunkFlight& flight = state.flight(chunk);
  state.arrive(chunk, loaded);
  Status kept;
  bool written = false;
  if (!cache.resident(chunk)) {
    flight.declined = !flight.toKeep && !cache.worthStoring(chunk);
    if (flight.declined) {
      kept = Error{ErrorCode::kOutOfSpace, "the cache directory has refused other chunks lately"};
    } else {
      kept = co_await cache.writeChunk(chunk, loaded->bytes, checksums);
      written = kept.ok();
    }
  }
  const std::uint64_t bytes = loaded->bytes.size();
  if (written && observer_ != nullptr) observer_->arrived(state.fetch, chunk, loaded);
  // Gone from memory: the whole file was found to be wrong while this was written.
  if (state.fetch->loaded.find(chunk) == loaded)
    retention.keep(state.fetch->shared, chunk, std::move(loaded));
  state.land(chunk, kept);
  if (kept.ok()) {
    reportHeld(state);
  } else {
    notKept(state, chunk, bytes, kept.error());
  }
}

void Fetcher::notKept(const RunState& state, std::uint32_t chunk, std::uint64_t bytes,
                      const Error& why) {
  const FileReference& file = state.fetch->reference;
  // Whoever waits for us to have it asks for itself.
  if (state.named) {
    ports_.directory.giveUp(file.about.key, file.about.size, state.chunks.stripe(), bitOf(chunk));
  }
  if (!state.demand() && state.fetch->readers.load() == 0) return;
  const auto unlogged = ports_.throughReads.note(*file.dataset, bytes, Clock::now());
  if (!unlogged) return;
  log(ports_.events, EngineEvent::Level::kWarn,
      "bytes are read through and not kept: " + why.message,
      {{"file", file.path()}, {"bytes", std::to_string(*unlogged)}});
}

}  // namespace hearth
