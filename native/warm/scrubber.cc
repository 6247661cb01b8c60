#include "warm/scrubber.h"

namespace hearth {
namespace {

// Files chosen at once; choosing goes through the whole index.
constexpr std::size_t kKeysAtOnce = 1024;
constexpr auto kIdlePause = std::chrono::seconds(60);
constexpr std::size_t kMaxRepairs = 16;
constexpr auto kRepairTick = std::chrono::milliseconds(100);
// Beyond this the one found first is given up: it is repaired when a reader wants it.
constexpr std::size_t kMaxUnrepaired = 4096;
constexpr auto kFirstRepairPause = std::chrono::seconds(1);
constexpr auto kLongestRepairPause = std::chrono::minutes(10);
// After a start it takes an agent a moment to give its engine all datasets.
constexpr auto kUnlistedTimeout = std::chrono::minutes(2);

}  // namespace

Scrubber::Scrubber(const WarmPorts& ports, ManifestStore& manifests, ScrubOptions options)
    : ports_(ports),
      home_(ports.home()),
      manifests_(manifests),
      options_(options),
      stopping_(home_.reactor),
      running_(home_.reactor) {}

void Scrubber::start() {
  if (options_.bytesPerSecond == 0) return;
  const std::size_t directories = ports_.cache.statistics().directories.size();
  for (std::size_t directory = 0; directory < directories; ++directory) {
    rates_.push_back(std::make_unique<RateLimiter>(options_.bytesPerSecond));
    running_.spawn(scrubDirectory(directory));
  }
  running_.spawn(repairAgain());
}

Task<void> Scrubber::close() {
  stopping_.set();
  for (const std::unique_ptr<RateLimiter>& rate : rates_) rate->cancel();
  co_await running_.close();
}

ScrubStatistics Scrubber::statistics() const {
  return {bytes_.load(), badBlocks_.load(), repaired_.load(), lost_.load()};
}

Task<void> Scrubber::scrubDirectory(std::size_t directory) {
  while (!stopping_.isSet()) {
    const Clock::time_point before = Clock::now() - options_.interval;
    auto choose = [this, directory, before] {
      return ports_.cache.leastRecentlyScrubbed(directory, before, kKeysAtOnce);
    };
    const std::vector<ContentKey> keys = co_await home_.reactor.offload(ports_.wholeFiles, choose);
    for (const ContentKey& key : keys) {
      if (stopping_.isSet()) break;
      co_await scrubFile(key, *rates_[directory]);
    }
    // A full choice may leave others that are due.
    if (keys.size() == kKeysAtOnce) continue;
    const auto pause =
        std::clamp<Clock::duration>(options_.interval, std::chrono::milliseconds(100), kIdlePause);
    [[maybe_unused]] const bool inTime = co_await stopping_.waitUntil(Clock::now() + pause);
  }
}

Task<void> Scrubber::scrubFile(ContentKey key, RateLimiter& rate) {
  const WarmShard& owner = ports_.owner(key);
  // Chunk by chunk: in between the file may go.
  for (std::uint32_t chunk = 0; !stopping_.isSet(); ++chunk) {
    while (repairing_.load() >= kMaxRepairs && !stopping_.isSet()) {
      co_await home_.reactor.sleep(kRepairTick);
    }
    const std::uint64_t size = ports_.cache.sizeOf(key);
    if (chunk * kChunkBytes >= size) break;
    const std::uint64_t bytes = std::min<std::uint64_t>(kChunkBytes, size - chunk * kChunkBytes);
    co_await rate.spend(home_.reactor, bytes);
    BandwidthLimiter& disk = home_.fetcher.limits().disk;
    if (disk.limits(Priority::kBackground)) {
      co_await disk.pass(home_.reactor, bytes, Priority::kBackground);
    }
    if (stopping_.isSet()) break;
    Task<std::uint64_t> reading = scrubChunk(owner, key, chunk);
    bytes_.fetch_add(co_await reading, std::memory_order_relaxed);
    co_await home_.reactor.enter();
  }
  ports_.cache.noteScrubbed(key, Clock::now());
}

Task<std::uint64_t> Scrubber::scrubChunk(const WarmShard& owner, ContentKey key,
                                         std::uint32_t chunk) {
  co_await owner.reactor.enter();
  const std::shared_ptr<CachedFile> file = ports_.cache.find(key);
  if (file == nullptr || chunk >= file->chunkCount() || !file->resident(chunk) ||
      owner.gate.closed()) {
    co_return 0;
  }
  const Result<std::uint32_t> bad = co_await file->scrubChunk(chunk);
  // A file that cannot be opened shows nothing of its bytes.
  if (!bad.ok()) co_return 0;
  if (*bad != 0) {
    badBlocks_.fetch_add(*bad, std::memory_order_relaxed);
    beginRepair(owner,
                {.key = key, .chunk = chunk, .foundAt = Clock::now(), .pause = kFirstRepairPause});
  }
  co_return std::min<std::uint64_t>(kChunkBytes, file->size() - chunk * kChunkBytes);
}

std::optional<FileReference> Scrubber::referenceOf(const ContentKey& key) {
  std::optional<FileReference> withoutId;  // which other agents may have all the same
  for (const std::shared_ptr<Dataset>& dataset : manifests_.opened()) {
    const Manifest& manifest = *dataset->manifest;
    if (withoutId && dataset->id.empty()) continue;
    for (std::uint32_t entry = 0; entry < manifest.totals().entries; ++entry) {
      const ManifestEntry about = manifest.entry(entry);
      if (about.kind != EntryKind::kFile || about.key != key) continue;
      if (!dataset->id.empty()) return FileReference::of(dataset, entry);
      withoutId = FileReference::of(dataset, entry);
      break;
    }
  }
  return withoutId;
}

void Scrubber::beginRepair(const WarmShard& owner, BadChunk bad) {
  repairing_.fetch_add(1);
  owner.gate.spawn(repair(owner, bad));
}

Task<void> Scrubber::repair(const WarmShard& owner, BadChunk bad) {
  // Rare, and it may go through millions of entries.
  auto search = [this, key = bad.key] { return referenceOf(key); };
  const std::optional<FileReference> file =
      co_await owner.reactor.offload(ports_.wholeFiles, search);
  const std::string name = file ? file->path() : bad.key.hex();
  Status repaired = Error{ErrorCode::kNotFound, "no dataset of this agent lists it any more"};
  if (file) {
    repaired = co_await fetchAgain(owner, *file, bad.chunk);
  }
  repairing_.fetch_sub(1);
  if (repaired.ok()) {
    noteRepaired(bad, name);
  } else if (repaired.code() != ErrorCode::kCancelled) {
    const bool withoutId = !file || file->dataset->id.empty();
    const bool waits = withoutId && Clock::now() - bad.foundAt < kUnlistedTimeout;
    if (!waits) noteLost(bad, name, repaired.error());
    // The next eviction removes files that no manifest lists any more.
    if (file || waits) tryLater(bad);
  }
}

void Scrubber::noteRepaired(const BadChunk& bad, const std::string& name) {
  repaired_.fetch_add(1, std::memory_order_relaxed);
  log(ports_.events, EngineEvent::Level::kWarn,
      "the scrub found bytes that have changed on the disk; they were mended",
      {{"file", name}, {"chunk", std::to_string(bad.chunk)}});
}

void Scrubber::noteLost(BadChunk& bad, const std::string& name, const Error& why) {
  if (bad.lost) return;
  bad.lost = true;
  lost_.fetch_add(1, std::memory_order_relaxed);
  log(ports_.events, EngineEvent::Level::kError,
      "the scrub found bytes that have changed on the disk, and they cannot be fetched "
      "again; the file is not served as a whole until they are: " +
          why.message,
      {{"file", name}, {"chunk", std::to_string(bad.chunk)}});
}

void Scrubber::tryLater(BadChunk bad) {
  bad.tryAt = Clock::now() + bad.pause;
  bad.pause = std::min<Clock::duration>(2 * bad.pause, kLongestRepairPause);
  const std::lock_guard lock(mutex_);
  if (unrepaired_.size() >= kMaxUnrepaired) unrepaired_.erase(unrepaired_.begin());
  unrepaired_.push_back(bad);
}

std::vector<Scrubber::BadChunk> Scrubber::takeDue(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  std::vector<BadChunk> due;
  std::erase_if(unrepaired_, [&](const BadChunk& bad) {
    if (bad.tryAt > now) return false;
    due.push_back(bad);
    return true;
  });
  return due;
}

Task<void> Scrubber::repairAgain() {
  while (!stopping_.isSet()) {
    for (const BadChunk& bad : takeDue(Clock::now())) {
      while (repairing_.load() >= kMaxRepairs && !stopping_.isSet()) {
        co_await home_.reactor.sleep(kRepairTick);
      }
      const WarmShard& owner = ports_.owner(bad.key);
      co_await owner.reactor.enter();
      if (!owner.gate.closed()) beginRepair(owner, bad);
      co_await home_.reactor.enter();
    }
    [[maybe_unused]] const bool inTime =
        co_await stopping_.waitUntil(Clock::now() + kFirstRepairPause);
  }
}

Task<Status> Scrubber::fetchAgain(const WarmShard& owner, const FileReference& file,
                                  std::uint32_t chunk) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher.open(file);
  if (!opened.ok()) co_return opened.error();
  if (co_await owner.memory.restore(*opened, chunk)) co_return Status();
  FetchOptions options{.priority = Priority::kBackground, .rate = {}, .counters = {}};
  co_return co_await owner.fetcher.ensure(*opened, chunk, chunk + 1, std::move(options));
}

}  // namespace hearth
