// How the chunks of a run come: from the origin, or from agents that have them.
#include "fetch/fetch_run.h"

#include <algorithm>
#include <bit>

#include "fetch/source_request.h"

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
  SourceRequest request({ports_.reactor, ports_.gate, ports_.lanes, ports_.ofOrigin, ports_.events},
                        file, *state.fetch->shared->rounds);
  KeyFetch& shared = *state.fetch->shared;
  ++shared.requests;
  const Status status = co_await originRequest(state, request, first, chunks);
  // Without a digest it is never asked.
  if (request.given() != 0 && file.about.sourceDigest)
    shared.rounds->gave(request.sources(), request.given());
  if (--shared.requests == 0 && shared.noted != nullptr) shared.noted->set();
  if (request.firstLacks()) file.dataset->originLacksFiles.store(true);
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

Task<Status> Fetcher::originRequest(RunState& state, SourceRequest& request, std::uint32_t first,
                                    std::span<const std::shared_ptr<LoadedChunk>> chunks) {
  std::vector<std::span<std::byte>> pieces;
  for (const auto& chunk : chunks) pieces.push_back(chunk->bytes);
  ByteLanes::Filled filled = [&](std::size_t at, std::vector<std::uint32_t> checksums) {
    const std::span<const std::byte> bytes = chunks[at]->bytes;
    ports_.counters.originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
    if (state.options.counters)
      state.options.counters->originBytes.fetch_add(bytes.size(), std::memory_order_relaxed);
    land(state, first + static_cast<std::uint32_t>(at), chunks[at], std::move(checksums),
         ports_.ofOrigin);
  };
  const FileReference& file = state.fetch->reference;
  Task<Status> running =
      request.run(first, file.about.objectOffset + state.fetch->chunkOffset(first),
                  std::move(pieces), std::move(filled));
  Status status = co_await running;
  co_return std::move(status);
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
                                std::vector<ChunkBuffer> memory, FailureReport& failure) {
  Gate reading(ports_.reactor);
  std::vector<Status> statuses(state.chunks.count);
  for (std::uint32_t chunk = state.chunks.first; chunk < state.chunks.end(); ++chunk) {
    const std::string& holder = answer.holderOf(chunk);
    if (holder.empty() || state.fetch->cache->resident(chunk)) continue;
    const bool others = (answer.elsewhere & bitOf(chunk)) != 0;
    std::optional<ChunkBuffer> buffer;
    if (!memory.empty()) {
      buffer = std::move(memory.back());
      memory.pop_back();
    }
    reading.spawn(readPeer(state, chunk, holder, others, std::move(buffer),
                           statuses[chunk - state.chunks.first]));
  }
  memory.clear();
  co_await reading.close();
  for (std::uint32_t at = 0; at < state.chunks.count; ++at) {
    if (statuses[at].ok()) continue;
    failure = failureReportOf(answer.holderOf(state.chunks.first + at), true, statuses[at]);
    co_return statuses[at];
  }
  co_return Status();
}

Task<void> Fetcher::readPeer(RunState& state, std::uint32_t chunk, std::string node, bool others,
                             std::optional<ChunkBuffer> memory, Status& status) {
  state.flight(chunk).fromPeer = true;
  if (!memory) {
    Task<std::vector<ChunkBuffer>> acquiring =
        ports_.ofPeers.acquire(*state.urgency, 1, state.options.rank);
    std::vector<ChunkBuffer> buffer = co_await acquiring;
    memory = std::move(buffer.front());
  }
  const auto loaded = loadInto(ports_.reactor, *std::exchange(memory, std::nullopt),
                               static_cast<std::size_t>(state.fetch->chunkSize(chunk)));
  const std::uint64_t size = loaded->bytes.size();
  std::vector<std::uint32_t> checksums;
  const RequestTimeouts timeouts(Clock::now() + kPeerTimeout,
                                 others ? Clock::duration(kSilenceWithOthers) : kSilenceAlone);
  PeerRange range{
      .node = std::move(node),
      .key = state.fetch->key(),
      .offset = state.fetch->chunkOffset(chunk),
      .into = loaded->buffer.slice(size, loaded),
      .timeouts = timeouts,
      .requestClass = state.demand() ? RequestClass::kDemand : RequestClass::kWarm,
  };
  status = co_await ports_.lanes.read(chunk, std::move(range), checksums);
  if (!status.ok()) {
    state.flight(chunk).fromPeer = false;
    state.flight(chunk).leave();
    co_return;
  }
  state.fetch->shared->rounds->gaveOthers();
  ports_.counters.peerBytes.fetch_add(size, std::memory_order_relaxed);
  if (state.options.counters)
    state.options.counters->peerBytes.fetch_add(size, std::memory_order_relaxed);
  land(state, chunk, loaded, std::move(checksums), ports_.ofPeers);
}

void Fetcher::land(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
                   std::vector<std::uint32_t> checksums, BufferPool& pool) {
  loaded->checksums = std::move(checksums);
  loaded->publish(state.fetch->key(), chunk);
  state.land(chunk, loaded);
  writeBack_.add({.fetch = state.fetch,
                  .chunk = chunk,
                  .flight = state.flights[chunk - state.chunks.first],
                  .loaded = std::move(loaded),
                  .pool = &pool,
                  .named = state.named});
}

}  // namespace hearth
