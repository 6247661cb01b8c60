// How the chunks of a run come: from the origin, or from agents that have them.
#include "fetch/fetch_run.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/back_off.h"
#include "fetch/origin_stream.h"
#include "fetch/source_request.h"

namespace hearth {
namespace {

// How long a request waits for a holder that does not have the bytes yet, and its pauses.
constexpr Clock::duration kHolderTimeout = std::chrono::seconds(1);
constexpr Clock::duration kFirstHolderPause = std::chrono::milliseconds(2);
constexpr Clock::duration kLongestHolderPause = std::chrono::milliseconds(50);

// Drops all that is here of a key, also what is still being written.
Task<void> dropAll(KeyFetch& shared) {
  // Chunks on their way to the cache file would be claimed after the others have been dropped.
  std::vector<std::shared_ptr<ChunkFlight>> storing;
  for (const auto& [chunk, flight] : shared.flights) {
    if (flight->state() == ChunkFlight::State::kLanded) storing.push_back(flight);
  }
  const Clock::time_point until = Clock::now() + kPeerTimeout;
  for (const std::shared_ptr<ChunkFlight>& flight : storing) {
    [[maybe_unused]] const bool stored = co_await flight->endingUntil(until);
  }
  shared.cache->discard();
  shared.loaded.clear();
}

}  // namespace

void Fetcher::reportChanged(const FileReference& file, const Error& why) const {
  ports_.events({.kind = EngineEvent::Kind::kOriginChanged,
                 .manifest = file.dataset->manifest->digest(),
                 .dataset = file.dataset->id,
                 .entries = {file.about.index},
                 .message = why.message});
}

Task<Status> Fetcher::prove(std::shared_ptr<FileFetch> fetch,
                            std::shared_ptr<OriginStream> stream) {
  if (!stream->isUnproved() || ports_.gate.closed()) co_return Status();
  Task<Status> asking = OriginStream::askAgain(stream);
  const Status same = co_await asking;
  if (same.code() != ErrorCode::kOriginChanged) co_return Status();
  const FileReference& file = fetch->reference;
  reportChanged(file, same.error());
  Task<void> dropping = dropAll(*fetch->shared);
  co_await dropping;
  co_return same.error().within(file.path());
}

Task<Status> Fetcher::fromOrigin(RunState& state, ChunkMask granted,
                                 std::vector<ChunkBuffer> memory) {
  const FileReference& file = state.fetch->reference;
  if (!file.dataset->holder.empty())
    co_return co_await fromHolder(state, granted, std::move(memory), file.dataset->holder);
  if (file.isOfVolume()) co_return co_await fromVolume(state, granted, std::move(memory));
  if (auto refused = state.fetch->refusal.holds(file.dataset->locations)) co_return *refused;
  const std::uint64_t version = file.dataset->locations.version();
  // One request: up to the first chunk that is not ours.
  std::uint32_t first = state.chunks.first;
  while ((granted & bitOf(first)) == 0) ++first;
  std::uint32_t end = first;
  while (end < state.chunks.end() && (granted & bitOf(end)) != 0) {
    if (state.named) state.flight(end).enter(ChunkFlight::State::kFromOrigin);
    ++end;
  }
  std::vector<std::shared_ptr<LoadedChunk>> chunks;
  for (std::uint32_t chunk = first; chunk < end; ++chunk) {
    chunks.push_back(loadInto(ports_.reactor, std::move(memory[chunk - first]),
                              static_cast<std::size_t>(state.fetch->chunkSize(chunk))));
    ChunkFlight& flight = state.flight(chunk);
    if (flight.state() == ChunkFlight::State::kFromOrigin && !ports_.directory.alone())
      flight.offer(std::make_shared<ChunkArrival>(ports_.reactor, chunks.back()));
  }
  SourceRequest request({ports_.reactor, ports_.gate, ports_.lanes, ports_.ofOrigin, ports_.events,
                         state.unwantedQuery()},
                        file, state.fetch->shared->rounds);
  KeyFetch& shared = *state.fetch->shared;
  ++shared.requests;
  Status status = co_await originRequest(state, request, first, chunks);
  if (status.code() == ErrorCode::kOriginChanged) {
    Task<Status> comparing = compareTouched(state.fetch, status.error());
    status = co_await comparing;
    if (status.ok()) status = co_await originRequest(state, request, first, chunks);
  }
  // Without a digest nobody asks who gave the bytes.
  if (request.given() != 0 && file.about.sourceDigest)
    shared.rounds->gave(request.sources(), request.given());
  if (--shared.requests == 0 && shared.noted != nullptr) shared.noted->set();
  if (request.firstLacks()) file.dataset->originLacksFiles.store(true);
  if (status.code() == ErrorCode::kOriginChanged) {
    reportChanged(file, status.error());
    // The stream may have brought bytes of either state; all bytes here came by it, or since.
    if (state.options.stream != nullptr && !file.about.sourceDigest) {
      Task<void> dropping = dropAll(shared);
      co_await dropping;
    }
  }
  if (status.ok()) co_return status;
  const Error failed = status.error().within(file.path());
  state.fetch->refusal.note(failed, version);
  co_return failed;
}

Task<Status> Fetcher::fromVolume(RunState& state, ChunkMask granted,
                                 std::vector<ChunkBuffer> memory) {
  const FileReference& file = state.fetch->reference;
  LocationCache& locations = file.dataset->locations;
  if (auto refused = state.fetch->refusal.holds(locations)) co_return *refused;
  const std::uint64_t version = locations.version();
  Task<Result<Location>> finding = locations.find(ports_.reactor, file.about.index);
  const Result<Location> location = co_await finding;
  if (!location.ok()) {
    const Error failed = location.error().within(file.path());
    if (failed.code == ErrorCode::kOriginChanged) {
      file.dataset->originLacksFiles.store(true);
      reportChanged(file, location.error());
    }
    state.fetch->refusal.note(failed, version);
    co_return failed;
  }
  Status status = location->node == ports_.directory.self()
                      ? co_await awaitSealed(state)
                      : co_await fromHolder(state, granted, std::move(memory), location->node);
  // The next request asks the leader again: the volume may not have the file any more.
  if (!status.ok()) locations.expire(file.about.index);
  co_return std::move(status);
}

Task<Status> Fetcher::awaitSealed(RunState& state) {
  const Clock::time_point deadline = Clock::now() + kHolderTimeout;
  Clock::duration pause = kFirstHolderPause;
  while (state.missing() != 0) {
    if (ports_.gate.closed()) co_return shuttingDown();
    if (Clock::now() + pause > deadline) {
      co_return Error{ErrorCode::kUnavailable,
                      "this node wrote the file, which is not in its cache yet"}
          .within(state.fetch->reference.path());
    }
    co_await ports_.reactor.sleep(pause);
    pause = std::min(2 * pause, kLongestHolderPause);
  }
  co_return Status();
}

Task<Status> Fetcher::fromHolder(RunState& state, ChunkMask granted,
                                 std::vector<ChunkBuffer> memory, std::string node) {
  const FileReference& file = state.fetch->reference;
  const Clock::time_point deadline = Clock::now() + kHolderTimeout;
  DoublingPause pauses(kFirstHolderPause, kLongestHolderPause);
  for (;;) {
    Gate reading(ports_.reactor);
    std::vector<Status> statuses(state.chunks.count);
    for (std::uint32_t at = 0; at < state.chunks.count; ++at) {
      const std::uint32_t chunk = state.chunks.first + at;
      if ((granted & state.missing() & bitOf(chunk)) == 0) continue;
      std::optional<ChunkBuffer> buffer;
      if (at < memory.size()) buffer = std::move(memory[at]);
      reading.spawn(
          readPeer(state, chunk, node, {.granted = true}, std::move(buffer), statuses[at]));
    }
    memory.clear();
    co_await reading.close();
    const auto failed =
        std::ranges::find_if(statuses, [](const Status& each) { return !each.ok(); });
    if (failed == statuses.end()) co_return Status();
    const bool again = failed->code() == ErrorCode::kTryElsewhere && !state.unwanted();
    if (!again || ports_.gate.closed()) co_return failed->error().within(file.path());
    const Clock::duration pause = pauses.next();
    if (Clock::now() + pause > deadline) {
      co_return Error{ErrorCode::kUnavailable,
                      node + " does not have the bytes: " + failed->error().message};
    }
    co_await ports_.reactor.sleep(pause);
  }
}

Task<Status> Fetcher::originRequest(RunState& state, SourceRequest& request, std::uint32_t first,
                                    std::span<const std::shared_ptr<LoadedChunk>> chunks) {
  // Cuts chunks that other agents may want into pieces, which go on to them one by one.
  std::vector<std::span<std::byte>> pieces;
  std::vector<std::uint32_t> chunkOf;
  for (std::uint32_t at = 0; at < chunks.size(); ++at) {
    const std::span<std::byte> bytes = chunks[at]->bytes;
    const std::size_t most =
        state.flight(first + at).arrival() != nullptr ? kArrivingBytes : bytes.size();
    for (std::size_t begin = 0; begin < bytes.size(); begin += most) {
      pieces.push_back(bytes.subspan(begin, std::min(most, bytes.size() - begin)));
      chunkOf.push_back(at);
    }
  }
  ByteLanes::Filled filled = [&](std::size_t piece, std::vector<std::uint32_t> checksums) {
    const std::size_t bytes = pieces[piece].size();
    const std::uint32_t at = chunkOf[piece];
    ports_.counters.originBytes.fetch_add(bytes, std::memory_order_relaxed);
    if (state.options.counters)
      state.options.counters->originBytes.fetch_add(bytes, std::memory_order_relaxed);
    std::ranges::copy(checksums, std::back_inserter(chunks[at]->checksums));
    if (const auto& arrival = state.flight(first + at).arrival()) arrival->advance(bytes);
    const bool last = piece + 1 == chunkOf.size() || chunkOf[piece + 1] != at;
    if (last) land(state, first + at, chunks[at], ports_.ofOrigin);
  };
  const FileReference& file = state.fetch->reference;
  const std::shared_ptr<OriginStream> stream = state.options.stream;
  if (stream != nullptr && stream->brings(first)) {
    const ChunkRun run{first, static_cast<std::uint32_t>(chunks.size())};
    Task<std::size_t> taking = stream->take(run, pieces, std::move(filled));
    const std::size_t come = co_await taking;
    if (come != 0 && file.about.sourceDigest)
      state.fetch->shared->rounds->gave(stream->sources(), 1);
    if (come == pieces.size()) co_return Status();
    co_return Error{ErrorCode::kTryElsewhere, "the stream of the object has ended"};
  }
  Task<Status> running = request.run(
      first, file.about.objectOffset + state.fetch->chunkOffset(first), pieces, std::move(filled));
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
  // The agent may fetch as another dataset: the origin's answer to it says nothing about us.
  if (awaited.code() == ErrorCode::kDeadlineExceeded) co_return awaited;
  co_return Error{ErrorCode::kTryElsewhere, awaited.error().message};
}

Task<Status> Fetcher::fromPeers(RunState& state, const LocateAnswer& answer,
                                std::vector<ChunkBuffer> memory, FailureReport& failure) {
  Gate reading(ports_.reactor);
  std::vector<Status> statuses(state.chunks.count);
  for (std::uint32_t chunk = state.chunks.first; chunk < state.chunks.end(); ++chunk) {
    const std::string& node = answer.giverOf(chunk);
    if (node.empty() || state.fetch->cache->resident(chunk)) continue;
    const ReadTerms terms{.others = (answer.elsewhere & bitOf(chunk)) != 0,
                          .arriving = (answer.arriving & bitOf(chunk)) != 0};
    std::optional<ChunkBuffer> buffer;
    if (!memory.empty()) {
      buffer = std::move(memory.back());
      memory.pop_back();
    }
    reading.spawn(readPeer(state, chunk, node, terms, std::move(buffer),
                           statuses[chunk - state.chunks.first]));
  }
  memory.clear();
  co_await reading.close();
  for (std::uint32_t at = 0; at < state.chunks.count; ++at) {
    if (statuses[at].ok()) continue;
    const std::uint32_t chunk = state.chunks.first + at;
    const bool held = (answer.arriving & bitOf(chunk)) == 0;
    failure = failureReportOf(answer.giverOf(chunk), held, statuses[at]);
    co_return statuses[at];
  }
  co_return Status();
}

Task<Status> Fetcher::readRange(std::uint32_t chunk, PeerRange range, bool arriving,
                                std::vector<std::uint32_t>& checksums) {
  const std::uint64_t size = range.into.size();
  if (!arriving) co_return co_await ports_.lanes.read(chunk, std::move(range), checksums);
  const std::size_t count = (size + kArrivingBytes - 1) / kArrivingBytes;
  std::vector<std::vector<std::uint32_t>> parts(count);
  std::vector<Status> statuses(count);
  Gate reading(ports_.reactor);
  for (std::size_t at = 0; at < count; ++at) {
    const std::uint64_t begin = at * kArrivingBytes;
    PeerRange part = range;
    part.offset += begin;
    part.into = range.into.part(begin, std::min<std::uint64_t>(kArrivingBytes, size - begin));
    reading.spawn(readPart(chunk, std::move(part), parts[at], statuses[at]));
  }
  co_await reading.close();
  for (std::size_t at = 0; at < count; ++at) {
    if (!statuses[at].ok()) co_return statuses[at];
    checksums.insert(checksums.end(), parts[at].begin(), parts[at].end());
  }
  co_return Status();
}

Task<void> Fetcher::readPart(std::uint32_t chunk, PeerRange range,
                             std::vector<std::uint32_t>& checksums, Status& status) {
  status = co_await ports_.lanes.read(chunk, std::move(range), checksums);
}

struct Fetcher::PeerRead {
  PeerRead(Reactor& reactor, RunState& state) : run(state.shared_from_this()), ended(reactor) {}

  const std::shared_ptr<RunState> run;
  std::uint32_t chunk = 0;
  std::string node;
  ReadTerms terms;
  std::shared_ptr<LoadedChunk> loaded;
  Status status;
  Event ended;

  // The chunk has come from elsewhere, or its run has ended without it.
  [[nodiscard]] bool isOver() const { return run->flight(chunk).isOver(); }
};

Task<void> Fetcher::carryOut(std::shared_ptr<PeerRead> read, PeerRange range) {
  const Clock::time_point began = Clock::now();
  Task<Status> reading =
      readRange(read->chunk, std::move(range), read->terms.arriving, read->loaded->checksums);
  read->status = co_await reading;
  if (read->status.ok()) {
    if (!read->terms.arriving) peerStandings_.gave(read->node, Clock::now() - began, Clock::now());
    RunState& state = *read->run;
    const std::uint64_t size = read->loaded->bytes.size();
    ports_.counters.peerBytes.fetch_add(size, std::memory_order_relaxed);
    if (state.options.counters)
      state.options.counters->peerBytes.fetch_add(size, std::memory_order_relaxed);
    if (!read->isOver()) state.fetch->shared->rounds->gaveOthers();
    land(state, read->chunk, read->loaded, read->terms.granted ? ports_.ofOrigin : ports_.ofPeers);
  }
  read->loaded.reset();
  read->ended.set();
}

Task<void> Fetcher::readPeer(RunState& state, std::uint32_t chunk, std::string node,
                             ReadTerms terms, std::optional<ChunkBuffer> memory, Status& status) {
  if (terms.others && peerStandings_.leavesOut(node, Clock::now())) {
    status = Error{ErrorCode::kUnavailable, node + " has given no chunk lately; others have it"};
    co_return;
  }
  if (!state.flight(chunk).enter(ChunkFlight::State::kFromPeer)) co_return;
  if (!memory) {
    BufferPool& pool = terms.granted ? ports_.ofOrigin : ports_.ofPeers;
    Task<std::vector<ChunkBuffer>> acquiring = pool.acquire(*state.urgency, 1, state.options.rank);
    std::vector<ChunkBuffer> buffer = co_await acquiring;
    memory = std::move(buffer.front());
  }
  const auto read = std::make_shared<PeerRead>(ports_.reactor, state);
  read->chunk = chunk;
  read->node = node;
  read->terms = terms;
  read->loaded = loadInto(ports_.reactor, *std::exchange(memory, std::nullopt),
                          static_cast<std::size_t>(state.fetch->chunkSize(chunk)));
  const RequestTimeouts timeouts(
      Clock::now() + kPeerTimeout,
      terms.others ? Clock::duration(kSilenceWithOthers) : kSilenceAlone);
  PeerRange range{
      .node = node,
      .key = state.fetch->key(),
      .offset = state.fetch->chunkOffset(chunk),
      .into = read->loaded->buffer.slice(read->loaded->bytes.size(), read->loaded),
      .timeouts = timeouts,
      .requestClass = state.demand() ? RequestClass::kDemand : RequestClass::kWarm,
  };
  if (!terms.others || ports_.gate.closed()) {
    Task<void> carrying = carryOut(read, std::move(range));
    co_await carrying;
  } else {
    ports_.gate.spawn(carryOut(read, std::move(range)));
    const bool inTime = co_await read->ended.waitUntil(Clock::now() + peerStandings_.patience());
    if (!inTime && !read->ended.isSet()) {
      peerStandings_.late(node, Clock::now());
      read->status = Error{ErrorCode::kDeadlineExceeded,
                           node + " takes long to give a chunk; another agent is asked for it"};
    }
  }
  status = read->status;
  if (!status.ok() && !read->isOver()) state.flight(chunk).enter(ChunkFlight::State::kWaiting);
}

void Fetcher::land(RunState& state, std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded,
                   BufferPool& pool) {
  // An agent that took long has given the chunk meanwhile.
  if (state.flight(chunk).isOver()) return;
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
