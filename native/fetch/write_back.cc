#include "fetch/write_back.h"

#include <algorithm>

#include "fetch/fetch_run.h"

namespace hearth {
namespace {

constexpr auto kStallTick = std::chrono::milliseconds(100);
// Readers that wait for memory say so at every tick.
constexpr auto kPressedFor = 3 * kStallTick;

// True when the chunk's memory, its only copy, was dropped before the write: the digest said that
// the file is wrong, or the chunk has landed once more.
bool dropped(const DirtyChunk& dirty) {
  return dirty.fetch->loaded.find(dirty.chunk) != dirty.loaded &&
         !dirty.fetch->cache->resident(dirty.chunk);
}

Error droppedError() {
  return {ErrorCode::kCancelled, "the chunk was dropped before it was written"};
}

}  // namespace

WriteBack::WriteBack(const FetchPorts& ports)
    : ports_(ports), timer_(ports.reactor), retryTimer_(ports.reactor) {
  for (BufferPool* const pool : {&ports_.ofOrigin, &ports_.ofPeers}) {
    pool->setReclaim([this, pool](Priority priority) {
      if (priority != Priority::kDemand) return false;
      press();
      return shed(*pool);
    });
  }
}

WriteBack::~WriteBack() {
  for (BufferPool* const pool : {&ports_.ofOrigin, &ports_.ofPeers})
    pool->setReclaim([](Priority) { return false; });
}

void WriteBack::add(DirtyChunk dirty) {
  CachedFile& cache = *dirty.fetch->cache;
  bytes_.fetch_add(dirty.loaded->bytes.size(), std::memory_order_relaxed);
  if (ports_.gate.closed()) return end(dirty, shuttingDown());
  if (!cache.resident(dirty.chunk) && !dirty.flight->toKeep && !cache.worthStoring(dirty.chunk)) {
    return end(dirty,
               Error{ErrorCode::kOutOfSpace, "the cache directory has refused other chunks lately"},
               ChunkFlight::Reason::kDeclined);
  }
  reportHeld(dirty);
  queue(std::move(dirty));
}

void WriteBack::queue(DirtyChunk dirty) {
  Disk& disk = disks_[dirty.fetch->cache->disk()];
  const std::shared_ptr<KeyFetch>& file = dirty.fetch->shared;
  auto place = std::find_if(disk.files.begin(), disk.files.end(),
                            [&file](const FileQueue& each) { return each.file == file; });
  if (place == disk.files.end()) place = disk.files.insert(disk.files.end(), {file, {}, 0});
  const std::uint32_t chunk = dirty.chunk;
  place->chunks.emplace(chunk, std::move(dirty));
  if (disk.writers == 0) disk.progress = Clock::now();
  if (!std::exchange(ticking_, true)) timer_.start(Clock::now() + kStallTick, [this] { tick(); });
  if (mayWrite(disk)) startWriter(disk);
}

void WriteBack::startWriter(Disk& disk) {
  ++disk.writers;
  ++writers_;
  ports_.gate.spawn(write(disk));
}

bool WriteBack::mayWrite(const Disk& disk) const {
  if (disk.pacing != nullptr) return false;
  const std::size_t spare = ports_.ofOrigin.reserve() / 2;
  return disk.writers == 0 || (disk.writing < kAtOnce * kChunkBytes && writers_ < spare);
}

Task<void> WriteBack::write(Disk& disk) {
  // Other writers of the disk go on when this one has ended.
  while (disk.writing < kAtOnce * kChunkBytes && disk.pacing == nullptr) {
    BandwidthAllowance allowance(ports_.limits.disk);
    const bool paced = ports_.limits.disk.limits(Priority::kBackground);
    if (paced) {
      Task<void> pacing = pace(disk, allowance);
      co_await pacing;
    }
    std::optional<DirtyChunk> dirty = next(disk);
    if (!dirty) break;
    if (ports_.gate.closed()) {
      end(*dirty, shuttingDown());
      continue;
    }
    if (dropped(*dirty)) {
      end(*dirty, droppedError(), ChunkFlight::Reason::kForgone);
      continue;
    }
    const std::uint64_t bytes = dirty->loaded->bytes.size();
    disk.writing += bytes;
    allowance.use(bytes, pressed() ? Priority::kDemand : Priority::kBackground);
    // During this write another writer waits for the limit.
    if (paced) ports_.reactor.post([this, &disk] { startNext(disk); });
    co_await writeOne(std::move(*dirty));
    disk.writing -= bytes;
    disk.progress = Clock::now();
  }
  --disk.writers;
  --writers_;
}

void WriteBack::startNext(Disk& disk) {
  if (!disk.files.empty() && !ports_.gate.closed() && mayWrite(disk)) startWriter(disk);
}

Task<void> WriteBack::pace(Disk& disk, BandwidthAllowance& allowance) {
  Urgency urgency(pressed() ? Priority::kDemand : Priority::kBackground);
  disk.pacing = &urgency;
  while (!disk.files.empty() && !ports_.gate.closed() && !allowance.given(urgency.priority())) {
    const DirtyChunk& first = disk.files.front().chunks.begin()->second;
    co_await allowance.earn(ports_.reactor, first.loaded->bytes.size(), urgency,
                            Clock::now() + kStallTick);
  }
  disk.pacing = nullptr;
}

void WriteBack::press() {
  const Clock::time_point now = Clock::now();
  if (now > pressedUntil_) pressedSince_ = now;
  pressedUntil_ = now + kPressedFor;
  for (auto& [number, disk] : disks_) {
    if (disk.pacing != nullptr) disk.pacing->raise();
  }
}

// Writes that stood still for the limit may go on, and fast enough, once readers wait.
Clock::time_point WriteBack::standsSince(const Disk& disk) const {
  const bool limited = ports_.limits.disk.limits(Priority::kBackground);
  return limited ? std::max(disk.progress, pressedSince_) : disk.progress;
}

std::optional<DirtyChunk> WriteBack::next(Disk& disk) {
  if (disk.files.empty()) return std::nullopt;
  FileQueue& file = disk.files.front();
  const auto first = file.chunks.begin();
  std::optional<DirtyChunk> dirty = std::move(first->second);
  file.chunks.erase(first);
  if (file.chunks.empty()) {
    disk.files.pop_front();
  } else if (++file.inARow == kInARow) {
    file.inARow = 0;
    disk.files.splice(disk.files.end(), disk.files, disk.files.begin());
  }
  return dirty;
}

Task<void> WriteBack::writeOne(DirtyChunk dirty) {
  CachedFile& cache = *dirty.fetch->cache;
  const bool there = cache.resident(dirty.chunk);
  Status kept;
  if (!there) {
    LoadedChunk& loaded = *dirty.loaded;
    loaded.buffer.noteBusy();
    // A disk that hangs keeps the chunk.
    std::shared_ptr<const void> busy(
        &loaded, [chunk = dirty.loaded](const void*) { chunk->buffer.noteIdle(); });
    kept = co_await cache.writeChunk(dirty.chunk, loaded.bytes, loaded.checksums, std::move(busy));
  }
  if (kept.ok() && !there) {
    for (FileObserver* const observer : observers_)
      observer->stored(dirty.fetch, dirty.chunk, dirty.loaded);
  }
  end(dirty, kept);
}

void WriteBack::end(const DirtyChunk& dirty, const Status& kept) {
  end(dirty, kept, ChunkFlight::reasonOf(kept));
}

void WriteBack::end(const DirtyChunk& dirty, const Status& kept, ChunkFlight::Reason reason) {
  bytes_.fetch_sub(dirty.loaded->bytes.size(), std::memory_order_relaxed);
  ports_.memory.settle(dirty.fetch->shared, dirty.chunk, dirty.loaded);
  dirty.fetch->shared->end(dirty.chunk, *dirty.flight, reason, kept);
  if (!kept.ok() && kept.code() != ErrorCode::kCancelled) notKept(dirty, kept.error());
}

void WriteBack::notKept(const DirtyChunk& dirty, const Error& why) {
  const FileFetch& fetch = *dirty.fetch;
  const FileReference& file = fetch.reference;
  // Agents that wait for our copy ask the directory again.
  if (dirty.named) {
    ports_.directory.giveUp(file.about.key, file.about.size, dirty.chunk / kChunksPerStripe,
                            bitOf(dirty.chunk));
  }
  if (dirty.flight->reason() != ChunkFlight::Reason::kDeclined) reportHeld(dirty);
  remember(dirty.fetch, dirty.chunk, dirty.loaded);
  if (dirty.again || (!dirty.flight->urgency->demand() && fetch.readers.load() == 0)) return;
  const auto unlogged =
      ports_.throughReads.note(*file.dataset, dirty.loaded->bytes.size(), Clock::now());
  if (!unlogged) return;
  log(ports_.events, EngineEvent::Level::kWarn,
      "bytes were given to readers and not cached: " + why.message,
      {{"file", file.path()}, {"bytes", std::to_string(*unlogged)}});
}

void WriteBack::reportHeld(const DirtyChunk& dirty) const {
  const FileReference& file = dirty.fetch->reference;
  const std::uint32_t stripe = dirty.chunk / kChunksPerStripe;
  ports_.directory.have(file.about.key, file.about.size, stripe, dirty.fetch->shared->held(stripe));
}

bool WriteBack::shed(const BufferPool& pool) {
  for (auto& [number, disk] : disks_) {
    if (disk.files.empty() || Clock::now() - standsSince(disk) < kStalled) continue;
    if (shedFrom(disk, pool)) return true;
  }
  return false;
}

// Sheds the last chunk, preferring chunks that no job is to store: the smallest loss.
bool WriteBack::shedFrom(Disk& disk, const BufferPool& pool) {
  auto file = disk.files.end();
  std::multimap<std::uint32_t, DirtyChunk>::iterator place;
  for (auto each = disk.files.begin(); each != disk.files.end(); ++each) {
    for (auto chunk = each->chunks.begin(); chunk != each->chunks.end(); ++chunk) {
      // A chunk that is written again belongs to no pool, so any pool may have its slot.
      if (chunk->second.pool != nullptr && chunk->second.pool != &pool) continue;
      const bool found = file != disk.files.end();
      if (found && chunk->second.flight->toKeep && !place->second.flight->toKeep) continue;
      file = each;
      place = chunk;
    }
  }
  if (file == disk.files.end()) return false;
  const DirtyChunk dirty = std::move(place->second);
  file->chunks.erase(place);
  if (file->chunks.empty()) disk.files.erase(file);
  end(dirty,
      Error{ErrorCode::kOutOfSpace,
            "the disk of the cache directory takes nothing, and readers need the memory; "
            "check the disk"},
      ChunkFlight::Reason::kForgone);
  return true;
}

void WriteBack::tick() {
  ticking_ = bytes() != 0;
  if (!ticking_) return;
  timer_.start(Clock::now() + kStallTick, [this] { tick(); });
  ports_.ofOrigin.serveWaiters();
  ports_.ofPeers.serveWaiters();
}

void WriteBack::remember(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                         const std::shared_ptr<LoadedChunk>& loaded) {
  if (unkept_.empty()) retryTimer_.start(Clock::now() + kRetry, [this] { retry(); });
  unkept_.push_back({fetch, chunk, loaded});
}

void WriteBack::reopened(const std::shared_ptr<FileFetch>& fetch) {
  for (const auto& [chunk, loaded] : fetch->loaded.all()) {
    if (!fetch->cache->resident(chunk)) remember(fetch, chunk, loaded);
  }
}

void WriteBack::retry() {
  std::list<Unkept> tried;
  tried.swap(unkept_);
  std::size_t begun = 0;
  std::erase_if(tried, [this, &begun](const Unkept& each) {
    return begun < kAtOnce && !tryAgain(each, begun);
  });
  unkept_.splice(unkept_.end(), tried);
  if (!unkept_.empty()) retryTimer_.start(Clock::now() + kRetry, [this] { retry(); });
}

bool WriteBack::tryAgain(const Unkept& unkept, std::size_t& begun) {
  const std::shared_ptr<FileFetch> fetch = unkept.fetch.lock();
  const std::shared_ptr<LoadedChunk> loaded = unkept.loaded.lock();
  if (fetch == nullptr || loaded == nullptr || ports_.gate.closed()) return false;
  if (fetch->loaded.find(unkept.chunk) != loaded) return false;
  if (fetch->cache->resident(unkept.chunk) || fetch->flights.contains(unkept.chunk)) return false;
  if (!fetch->cache->worthStoring(unkept.chunk)) return true;
  ++begun;
  (void)store(fetch, unkept.chunk, loaded);
  return false;
}

std::shared_ptr<ChunkFlight> WriteBack::store(const std::shared_ptr<FileFetch>& fetch,
                                              std::uint32_t chunk,
                                              std::shared_ptr<LoadedChunk> loaded) {
  auto flight = std::make_shared<ChunkFlight>(ports_.reactor, fetch->reference.dataset);
  flight->urgency = std::make_shared<Urgency>(Priority::kBackground);
  flight->toKeep = true;
  flight->enter(ChunkFlight::State::kLanded);
  fetch->flights[chunk] = flight;
  add({.fetch = fetch,
       .chunk = chunk,
       .flight = flight,
       .loaded = std::move(loaded),
       .again = true});
  return flight;
}

}  // namespace hearth
