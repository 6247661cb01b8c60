#include "engine/scrubber.h"

#include "engine/content_calls.h"
#include "engine/fetcher.h"

namespace hearth {
namespace {

// Files chosen at once; choosing goes through the whole index.
constexpr std::size_t kFilesAtOnce = 1024;
constexpr auto kLookAgain = std::chrono::seconds(60);
constexpr std::size_t kMostRepairs = 16;
constexpr auto kRepairTick = std::chrono::milliseconds(100);

}  // namespace

Scrubber::Scrubber(EngineCommons& commons, Shard& home, ManifestStore& manifests,
                   ScrubOptions options)
    : commons_(commons),
      home_(home),
      manifests_(manifests),
      options_(options),
      stopping_(*home.reactor),
      running_(*home.reactor) {}

void Scrubber::start() {
  if (options_.bytesPerSecond == 0) return;
  const std::size_t directories = commons_.cache->statistics().directories.size();
  for (std::size_t directory = 0; directory < directories; ++directory) {
    rates_.push_back(std::make_unique<RateLimiter>(options_.bytesPerSecond));
    running_.spawn(scrubDirectory(directory));
  }
}

Task<void> Scrubber::close() {
  stopping_.set();
  for (const std::unique_ptr<RateLimiter>& rate : rates_) rate->cancel();
  Task<void> closing = running_.close();
  co_await closing;
}

ScrubStatistics Scrubber::statistics() const {
  return {bytes_.load(), badBlocks_.load(), repaired_.load(), lost_.load()};
}

Task<void> Scrubber::scrubDirectory(std::size_t directory) {
  while (!stopping_.isSet()) {
    const Clock::time_point before = Clock::now() - options_.interval;
    auto choose = [this, directory, before] {
      return commons_.cache->leastRecentlyScrubbed(directory, before, kFilesAtOnce);
    };
    auto choosing = home_.reactor->offload(commons_.wholeFiles, choose);
    const std::vector<ContentKey> keys = co_await choosing;
    for (const ContentKey& key : keys) {
      if (stopping_.isSet()) break;
      Task<void> scrubbing = scrubFile(key, *rates_[directory]);
      co_await scrubbing;
    }
    // A full choice may leave others that are due.
    if (keys.size() == kFilesAtOnce) continue;
    const auto pause =
        std::clamp<Clock::duration>(options_.interval, std::chrono::milliseconds(100), kLookAgain);
    auto waiting = stopping_.waitUntil(Clock::now() + pause);
    [[maybe_unused]] const bool inTime = co_await waiting;
  }
}

Task<void> Scrubber::scrubFile(ContentKey key, RateLimiter& rate) {
  Shard& owner = commons_.owner(key);
  // Chunk by chunk: in between the file may go.
  for (std::uint32_t chunk = 0; !stopping_.isSet(); ++chunk) {
    while (repairing_.load() >= kMostRepairs && !stopping_.isSet()) {
      co_await home_.reactor->sleep(kRepairTick);
    }
    const std::uint64_t size = commons_.cache->sizeOf(key);
    if (chunk * kChunkBytes >= size) break;
    Task<void> earning = rate.spend(
        *home_.reactor, std::min<std::uint64_t>(kChunkBytes, size - chunk * kChunkBytes));
    co_await earning;
    if (stopping_.isSet()) break;
    Task<std::uint64_t> reading = scrubChunk(owner, key, chunk);
    bytes_.fetch_add(co_await reading, std::memory_order_relaxed);
    co_await home_.reactor->enter();
  }
  commons_.cache->noteScrubbed(key, Clock::now());
}

Task<std::uint64_t> Scrubber::scrubChunk(Shard& owner, ContentKey key, std::uint32_t chunk) {
  co_await owner.reactor->enter();
  const std::shared_ptr<CachedFile> file = commons_.cache->find(key);
  if (file == nullptr || chunk >= file->chunkCount() || !file->resident(chunk) ||
      owner.gate->closed()) {
    co_return 0;
  }
  Task<Result<std::uint32_t>> reading = file->scrubChunk(chunk);
  const Result<std::uint32_t> bad = co_await reading;
  // A file that cannot be opened tells nothing of its bytes.
  if (!bad.ok()) co_return 0;
  if (*bad != 0) {
    badBlocks_.fetch_add(*bad, std::memory_order_relaxed);
    repairing_.fetch_add(1);
    owner.gate->spawn(repair(owner, key, chunk));
  }
  co_return std::min<std::uint64_t>(kChunkBytes, file->size() - chunk * kChunkBytes);
}

std::optional<FileReference> Scrubber::referenceOf(const ContentKey& key) {
  std::optional<FileReference> ofNobody;  // which other agents may have all the same
  for (const std::shared_ptr<Dataset>& dataset : manifests_.opened()) {
    const Manifest& manifest = *dataset->manifest;
    if (ofNobody && dataset->id.empty()) continue;
    for (std::uint32_t entry = 0; entry < manifest.totals().entries; ++entry) {
      const ManifestEntry about = manifest.entry(entry);
      if (about.kind != EntryKind::kFile || about.key != key) continue;
      if (!dataset->id.empty()) return FileReference::of(dataset, entry);
      ofNobody = FileReference::of(dataset, entry);
      break;
    }
  }
  return ofNobody;
}

Task<void> Scrubber::repair(Shard& owner, ContentKey key, std::uint32_t chunk) {
  // Rare, and it may go through millions of entries.
  auto search = [this, key] { return referenceOf(key); };
  auto searching = owner.reactor->offload(commons_.wholeFiles, search);
  const std::optional<FileReference> file = co_await searching;
  const std::string name = file ? file->path() : key.hex();
  Status repaired = Error{ErrorCode::kNotFound, "no dataset of this agent lists it any more"};
  if (file) {
    Task<Status> fetching = fetchAgain(owner, *file, chunk);
    repaired = co_await fetching;
  }
  repairing_.fetch_sub(1);
  const std::map<std::string, std::string> fields{{"file", name}, {"chunk", std::to_string(chunk)}};
  if (repaired.ok()) {
    repaired_.fetch_add(1, std::memory_order_relaxed);
    commons_.log(Question::Level::kWarn,
                 "the scrub found bytes that have changed on the disk; they were fetched again",
                 fields);
  } else if (repaired.code() != ErrorCode::kCancelled) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    commons_.log(Question::Level::kError,
                 "the scrub found bytes that have changed on the disk, and they cannot be fetched "
                 "again; the file is not served as a whole until they are: " +
                     repaired.error().message,
                 fields);
  }
}

Task<Status> Scrubber::fetchAgain(Shard& owner, const FileReference& file, std::uint32_t chunk) {
  Task<Result<std::shared_ptr<FileFetch>>> opening = owner.fetcher->open(file);
  const Result<std::shared_ptr<FileFetch>> opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  FetchOptions options{.priority = Priority::kBackground, .rate = {}, .counters = {}};
  Task<Status> ensuring = owner.fetcher->ensure(*opened, chunk, chunk + 1, std::move(options));
  co_return co_await ensuring;
}

}  // namespace hearth
