#include "fetch/fetcher.h"

#include <algorithm>

#include "fetch/fetch_run.h"
#include "fetch/origin_stream.h"
#include "fetch/run_executor.h"

namespace hearth {
namespace {

// Chunks that background work reads from peers at a time.
constexpr std::uint32_t kPeerChunks = 12;

// The FileFetch of `shared` for the dataset and entry of `reference`.
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

}  // namespace

Fetcher::Fetcher(FetchPorts ports)
    : ports_(ports),
      writeBack_(ports_),
      peerReadSlots_(ports.reactor, kPeerChunks),
      directReadSlots_(ports.reactor) {}

Task<Result<std::shared_ptr<FileFetch>>> Fetcher::open(FileReference reference) {
  if (ports_.refusals.refuses(reference.about.key))
    co_return DigestRefusals::error().within(reference.path());
  if (const auto known = ports_.wanted.find(reference.about.key)) {
    if (known->cache->size() == reference.about.size) co_return fileOf(known, std::move(reference));
  }
  Task<Result<std::shared_ptr<CachedFile>>> acquiring =
      ports_.cache.acquire(reference.about.key, reference.about.size, reference.about.executable);
  Result<std::shared_ptr<CachedFile>> acquired = co_await acquiring;
  if (!acquired.ok()) co_return acquired.error();
  // Another coroutine may have opened it while we waited.
  if (const auto known = ports_.wanted.find(reference.about.key)) {
    co_return fileOf(known, std::move(reference));
  }
  const ContentKey key = reference.about.key;
  const auto shared = std::make_shared<KeyFetch>(key, reference.about.size, std::move(*acquired),
                                                 ports_.memory.open(key));
  const bool some = shared->cache->residentBytes() != 0 || !shared->loaded.all().empty();
  if (auto begun = ports_.refusals.roundsOf(key)) shared->rounds = std::move(begun);
  shared->rounds->open(some);
  ports_.wanted.add(key, shared);
  const std::shared_ptr<FileFetch> fetch = fileOf(shared, std::move(reference));
  for (FileObserver* const observer : observers_) observer->opened(fetch);
  writeBack_.reopened(fetch);
  co_return fetch;
}

Task<Status> Fetcher::ensure(std::shared_ptr<FileFetch> fetch, std::uint32_t first,
                             std::uint32_t end, FetchOptions options) {
  if (ports_.gate.closed()) co_return shuttingDown();
  if (ports_.refusals.refuses(fetch->key()))
    co_return DigestRefusals::error().within(fetch->reference.path());
  const std::shared_ptr<const Dataset> ours = fetch->reference.dataset;
  OriginWait waiting(ports_, fetch->reference.dataset);
  for (bool alone = false;; alone = true) {
    const auto awaited = begin(fetch, first, end, options, alone);
    Status status;
    bool again = false;
    for (const std::shared_ptr<ChunkFlight>& flight : awaited) {
      if (options.until == FetchOptions::Until::kInMemory) {
        co_await flight->landing();
        if (!flight->hasEnded()) continue;
      }
      co_await flight->ending();
      if (flight->status().ok()) continue;
      // Tries again for a chunk that another dataset's credentials did not get, that another reader
      // or job gave up, or that was not to be kept.
      using Reason = ChunkFlight::Reason;
      const Reason reason = flight->reason();
      const bool givenUp = reason == Reason::kAbandoned && !options.unwanted();
      const bool notTried =
          options.keep && (reason == Reason::kDeclined || reason == Reason::kForgone);
      if (flight->dataset != ours || givenUp || notTried) {
        again = true;
      } else if (status.ok()) {
        status = flight->status();
      }
    }
    if (!status.ok()) {
      Task<bool> pausing =
          waiting.again(status.error(), options.originWait, [&] { return !options.unwanted(); });
      again = co_await pausing;
    }
    if (!again) co_return status;
    if (ports_.gate.closed()) co_return shuttingDown();
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
    if (options.keep && !fetch->flights.contains(chunk)) {
      if (auto here = fetch->loaded.find(chunk)) {
        awaited.push_back(writeBack_.store(fetch, chunk, std::move(here)));
        continue;
      }
    }
    std::shared_ptr<ChunkFlight>& flight = fetch->flights[chunk];
    const bool others = alone && flight != nullptr && flight->dataset != ours;
    const bool storing = flight != nullptr && flight->state() == ChunkFlight::State::kLanded;
    // A flight does not bring its chunk again when the chunk was dropped before it was written.
    const bool lost = storing && !fetch->loaded.find(chunk);
    if (flight == nullptr || lost || (others && !storing)) {
      flight = std::make_shared<ChunkFlight>(ports_.reactor, ours);
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
                                                           std::uint32_t chunk,
                                                           StillWanted wanted) {
  std::optional<OriginWait> waiting;
  for (bool alone = false; !ports_.gate.closed();) {
    if (ports_.refusals.refuses(fetch->key()))
      co_return DigestRefusals::error().within(fetch->reference.path());
    if (auto here = fetch->loaded.find(chunk)) co_return here;
    if (fetch->cache->resident(chunk)) co_return std::shared_ptr<LoadedChunk>();
    FetchOptions options;
    options.keep = false;
    const auto begun = begin(fetch, chunk, chunk + 1, options, alone);
    const std::shared_ptr<ChunkFlight> flight = begun.front();
    ++flight->readers;
    co_await flight->landing();
    auto loaded = flight->loaded;
    if (--flight->readers == 0) flight->loaded.reset();
    if (loaded != nullptr) co_return loaded;
    alone = flight->dataset != fetch->reference.dataset;
    // The chunk landed before we waited, and was not kept: it is still in memory, or comes again.
    const bool missed = flight->status().code() == ErrorCode::kOutOfSpace;
    const bool again = alone || missed || flight->status().ok() ||
                       flight->reason() == ChunkFlight::Reason::kAbandoned ||
                       flight->reason() == ChunkFlight::Reason::kForgone;
    if (again) continue;
    const std::shared_ptr<Dataset>& dataset = fetch->reference.dataset;
    if (!waiting) waiting.emplace(ports_, dataset);
    Task<bool> pausing = waiting->again(flight->status().error(), dataset->absence.bound(), wanted);
    if (!co_await pausing) co_return flight->status().error();
  }
  co_return shuttingDown();
}

Task<std::shared_ptr<LoadedChunk>> Fetcher::awaitFirst(std::shared_ptr<KeyFetch> fetch,
                                                       std::uint32_t chunk, std::size_t bytes) {
  const auto known = fetch->flights.find(chunk);
  if (known == fetch->flights.end()) co_return nullptr;
  const std::shared_ptr<ChunkFlight> flight = known->second;
  // The asking agent may hear of our grant before we do.
  if (flight->state() == ChunkFlight::State::kAsking) {
    const std::shared_ptr<Event> answered = flight->change();
    co_await answered->wait();
  }
  if (flight->arrival() == nullptr) co_return fetch->storing(chunk);
  Task<std::shared_ptr<LoadedChunk>> waiting = ChunkArrival::awaitFirst(flight->arrival(), bytes);
  co_return co_await waiting;
}

Task<Status> Fetcher::awaitChunk(ContentKey key, std::uint32_t chunk) {
  const std::shared_ptr<KeyFetch> fetch = ports_.wanted.find(key);
  const std::shared_ptr<CachedFile> file = ports_.wanted.cached(key);
  if (file != nullptr && chunk < file->chunkCount() && file->resident(chunk)) co_return Status();
  if (fetch != nullptr) {
    const auto known = fetch->flights.find(chunk);
    if (known != fetch->flights.end()) {
      const std::shared_ptr<ChunkFlight> flight = known->second;
      // The asking agent may hear of our grant before we do.
      if (flight->state() == ChunkFlight::State::kAsking) {
        const std::shared_ptr<Event> answered = flight->change();
        co_await answered->wait();
      }
      if (flight->isUnderWay()) {
        const std::shared_ptr<Event> moved = flight->change();
        co_await moved->wait();
      }
      if (flight->isOver() && flight->status().ok()) co_return Status();
    }
  }
  co_return Error{ErrorCode::kTryElsewhere, "the chunk is not on its way to this agent"};
}

bool Fetcher::mayStream(const FileFetch& fetch, std::uint64_t origin) const {
  const FileReference& file = fetch.reference;
  const bool some =
      fetch.cache->residentBytes() != 0 || !fetch.flights.empty() || !fetch.loaded.all().empty();
  const bool whole = file.about.objectOffset == 0 && file.about.size > kRunChunks * kChunkBytes;
  if (!file.dataset->holder.empty() || file.isOfVolume() || some || !whole ||
      fetch.shared->rounds->inOrder())
    return false;
  if (file.dataset->sources.now()->sources.size() != 1) return false;
  if (ports_.limits.origin.limits(Priority::kBackground)) return false;
  const OriginTurns& turns = file.dataset->originTurns;
  return ports_.directory.alone() || (turns.sharers() == 1 && origin >= OriginTurns::kBytes);
}

std::shared_ptr<OriginStream> Fetcher::stream(const FileFetch& fetch) {
  return std::make_shared<OriginStream>(
      OriginStream::Ports{ports_.reactor, ports_.gate, ports_.lanes, ports_.ofOrigin},
      fetch.reference, streams_++);
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
    ports_.gate.spawn(run(fetch, runs[i], options, urgencies[i]));
  }
}

Task<void> Fetcher::run(std::shared_ptr<FileFetch> fetch, ChunkRun chunks, FetchOptions options,
                        std::shared_ptr<Urgency> urgency) {
  if (options.counters == nullptr) options.counters = fetch->counters;
  const auto state =
      std::make_shared<RunState>(std::move(fetch), chunks, std::move(options), std::move(urgency));
  for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
    state->flights.push_back(state->fetch->flights.at(chunk));
  }
  RunExecutor executor(*this, *state);
  state->end(co_await executor.run());
}

}  // namespace hearth
