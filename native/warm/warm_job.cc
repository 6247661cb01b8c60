#include "warm/warm_job.h"

#include <algorithm>

#include "fetch/origin_stream.h"
#include "warm/file_digest.h"
#include "warm/file_repair.h"

namespace hearth {
namespace {

// Files under way on one shard: many, because most datasets of many files have small ones; the
// bytes under way are bounded by the window of runs and by the buffers. Those that wait to be
// verified are among them, so that a disk that is slower than the network sets the pace.
constexpr std::uint64_t kFilesAtOnce = 64;
constexpr std::uint64_t kVerifiedAtOnce = 2;
// Runs under way on one shard. Those that wait for other agents or for their turn hold no memory.
constexpr std::uint64_t kWindowRuns = 32;
// Half a minute of looks at a chunk on its way to another agent; then the job leaves it to that
// agent.
constexpr int kLooks = 60;
// For so long a file whose disk fails is tried on other disks, and on that one when it hangs.
constexpr auto kDiskPatience = std::chrono::seconds(30);

// The work for a file, whatever its size, as the bytes that take a pace as much time.
constexpr std::uint64_t kFileBytes = std::uint64_t{64} << 10;

// Of one file, for the cluster.
struct Missing {
  std::vector<ChunkRun> runs;  // that no agent holds, nor will soon
  bool coming = false;         // others are on their way to another agent
};

// `here`: what this agent has of it, or null.
Missing missingOf(const CachedFile* here, std::uint64_t size, const HeldElsewhere& elsewhere) {
  Missing missing;
  const auto chunks = static_cast<std::uint32_t>((size + kChunkBytes - 1) / kChunkBytes);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const std::uint32_t stripe = chunk / kChunksPerStripe;
    if (here != nullptr && here->resident(chunk)) continue;
    if ((elsewhere.held[stripe] & bitOf(chunk)) != 0) continue;
    if ((elsewhere.coming[stripe] & bitOf(chunk)) != 0) {
      missing.coming = true;
    } else {
      addToRuns(missing.runs, chunk);
    }
  }
  return missing;
}

}  // namespace

struct WarmJob::Windows {
  explicit Windows(Reactor& reactor)
      : files(reactor, kFilesAtOnce),
        runs(reactor, kWindowRuns),
        verifications(reactor, kVerifiedAtOnce) {}
  Semaphore files, runs, verifications;
};

WarmJob::WarmJob(WarmOptions options)
    : options_(std::move(options)),
      rate_(std::make_shared<RateLimiter>(options_.rateLimit)),
      peerRate_(std::make_shared<RateLimiter>(options_.peerRateLimit)),
      counters_(std::make_shared<FetchCounters>()),
      streams_(kStreams) {
  for (const std::uint32_t entry : options_.entries)
    bytesTotal_ += options_.dataset->manifest->entry(entry).size;
}

void WarmJob::fail(const Error& error) {
  // A cancelled job has not failed.
  if (cancelled_.load()) return;
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = error;
  failed_.store(true);
  // Runs that wait for the origin are not wanted any more.
  rate_->cancel();
  peerRate_->cancel();
}

FetchOptions WarmJob::fetchOptions() const {
  return {.priority = Priority::kBackground,
          .rank = options_.priority,
          .rate = rate_,
          .peerRate = peerRate_,
          .counters = counters_,
          .originWait =
              options_.hasDeadline ? Clock::duration::max() : options_.dataset->absence.bound()};
}

Task<void> WarmJob::run(std::shared_ptr<WarmJob> job, const WarmPorts& ports) {
  Gate all(ports.home().reactor);
  for (const WarmShard& shard : ports.shards) all.spawn(onShard(job, ports, shard));
  co_await all.close();
  if (job->failed_.load()) {
    job->state_.store(WarmState::kFailed);
  } else if (job->cancelled_.load()) {
    job->state_.store(WarmState::kCancelled);
  } else {
    job->state_.store(WarmState::kSucceeded);
  }
}

std::vector<std::uint32_t> WarmJob::entriesOf(const WarmPorts& ports,
                                              const WarmShard& shard) const {
  const Manifest& manifest = *options_.dataset->manifest;
  std::vector<std::uint32_t> mine;
  for (const std::uint32_t entry : options_.entries) {
    if (&ports.owner(manifest.entry(entry).key) == &shard) mine.push_back(entry);
  }
  return mine;
}

Task<void> WarmJob::onShard(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                            const WarmShard& shard) {
  co_await shard.reactor.enter();
  {
    Windows windows(shard.reactor);
    Gate files(shard.reactor);
    const std::vector<std::uint32_t> entries = job->entriesOf(ports, shard);
    for (const std::uint32_t entry : entries) {
      co_await windows.files.acquire(1);
      Task<void> pacing = keepPace(job, shard.reactor, kFileBytes);
      co_await pacing;
      if (job->stopped()) {
        windows.files.release(1);
        break;
      }
      files.spawn(job->options_.scope == WarmScope::kCluster
                      ? takeMissing(job, ports, shard, entry, windows)
                      : takeFile(job, ports, shard, entry, windows));
    }
    co_await files.close();
  }
  co_await ports.home().reactor.enter();
}

Task<void> WarmJob::takeFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                             const WarmShard& shard, std::uint32_t entry, Windows& windows) {
  Status status;
  bool again = false;
  const Clock::time_point until = Clock::now() + kDiskPatience;
  for (;;) {
    Task<Status> trying = tryFile(job, ports, shard, entry, windows, again);
    status = co_await trying;
    if (!again || job->stopped() || Clock::now() >= until) break;
    // Writes of the file that are under way still have it.
    co_await shard.reactor.sleep(kLookAgain);
  }
  if (!status.ok()) job->fail(status.error());
  windows.files.release(1);
}

Task<Status> WarmJob::tryFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                              const WarmShard& shard, std::uint32_t entry, Windows& windows,
                              bool& again) {
  again = false;
  Task<Result<std::shared_ptr<FileFetch>>> opening =
      shard.fetcher.open(FileReference::of(job->options_.dataset, entry));
  const Result<std::shared_ptr<FileFetch>> opened = co_await opening;
  if (!opened.ok()) co_return opened.error();
  const std::shared_ptr<FileFetch> fetch = *opened;
  const bool here = fetch->cache->complete();
  again = !here && fetch->cache->hangs();
  if (again)
    co_return Error{ErrorCode::kIoError,
                    fetch->reference.path() + ": the disk that has it does not answer"};
  Task<std::shared_ptr<MemoryFilling::Fill>> beginning =
      shard.memory.begin(fetch, job->options_.memory, job->began_);
  const std::shared_ptr<MemoryFilling::Fill> fill = co_await beginning;
  FileProgress file;
  Task<Status> fetching = fetchFile(job, shard, fetch, windows, file);
  Status status = co_await fetching;
  again = !status.ok() && (file.hung || fetch->cache->hangs() || fetch->cache->misplaced());
  // A chunk that differs from its digest is dropped, perhaps while it is claimed.
  const bool came = status.ok() || (status.code() == ErrorCode::kIoError && !again);
  const bool compares = (job->options_.verify != Verification::kNone && !here) || fill;
  if (came && !job->stopped())
    status = co_await checkFile(job, ports, shard, fetch, windows, {compares, status});
  if (fill != nullptr) {
    const auto wanted = [job, good = status.ok()] { return good && !job->stopped(); };
    co_await shard.memory.finish(fetch, fill, wanted);
  }
  if (again) job->uncount(file);
  co_return status;
}

Task<Status> WarmJob::checkFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                const WarmShard& shard, std::shared_ptr<FileFetch> fetch,
                                Windows& windows, Came came) {
  const Verification verify = job->options_.verify;
  const bool compared = came.compares && fetch->reference.about.sourceDigest.has_value();
  Status status = std::move(came.status);
  if (compared) status = co_await shard.verifier.verified(fetch);
  if (!status.ok() || verify == Verification::kNone) co_return status;
  if (compared && verify == Verification::kDigest) {
    // Nothing is read again of what was hashed as it came.
    job->bytesVerified_.fetch_add(fetch->cache->size());
    job->filesVerified_.fetch_add(1);
    co_return Status();
  }
  co_await windows.verifications.acquire(1);
  if (!job->stopped()) status = co_await verifyFile(job, ports, shard, fetch);
  windows.verifications.release(1);
  co_return status;
}

Task<Status> WarmJob::fetchFile(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                                std::shared_ptr<FileFetch> fetch, Windows& windows,
                                FileProgress& file) {
  fetch->counters = job->counters_;
  const std::uint64_t resident = fetch->cache->residentBytes();
  job->count(file, resident, resident);
  Gate streaming(shard.reactor);
  std::shared_ptr<OriginStream> stream;
  Task<std::uint32_t> beginning = streamFile(job, shard, fetch, streaming, file, stream);
  const std::uint32_t streamed = co_await beginning;
  std::vector<ChunkRun> runs;
  for (std::uint32_t chunk = streamed; file.status.ok() && chunk < fetch->cache->chunkCount();
       ++chunk) {
    if (!fetch->cache->resident(chunk)) addToRuns(runs, chunk);
  }
  Task<void> fetching = fetchRuns(job, shard, fetch, std::move(runs), windows, file);
  co_await fetching;
  co_await streaming.close();
  Status status = file.status;
  if (stream != nullptr) {
    Task<Status> proving = shard.fetcher.prove(fetch, stream);
    Status proved = co_await proving;
    if (status.ok()) status = std::move(proved);
  }
  if (!status.ok() || !fetch->cache->complete()) co_return status;
  status = co_await fetch->cache->claimed();
  if (status.ok()) job->filesReady_.fetch_add(1);
  co_return status;
}

Task<void> WarmJob::fetchRuns(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                              std::shared_ptr<FileFetch> fetch, std::vector<ChunkRun> runs,
                              Windows& windows, FileProgress& file) {
  Gate running(shard.reactor);
  for (const ChunkRun& run : runs) {
    co_await windows.runs.acquire(1);
    Task<void> pacing = keepPace(job, shard.reactor, bytesOf(*fetch, run));
    co_await pacing;
    if (job->stopped() || !file.status.ok()) {
      windows.runs.release(1);
      break;
    }
    running.spawn(fetchRun(job, shard, fetch, run, windows.runs, file, nullptr));
  }
  co_await running.close();
}

Task<void> WarmJob::takeMissing(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                const WarmShard& shard, std::uint32_t entry, Windows& windows) {
  std::uint64_t fetched = 0;
  Task<Status> bringing = bringMissing(job, ports, shard, entry, windows, fetched);
  const Status status = co_await bringing;
  if (!status.ok()) {
    job->fail(status.error());
  } else if (!job->stopped()) {
    const std::uint64_t others = job->options_.dataset->manifest->entry(entry).size - fetched;
    job->bytesReady_.fetch_add(others);
    job->bytesInMemory_.fetch_add(others);
    job->filesReady_.fetch_add(1);
  }
  windows.files.release(1);
}

Task<Status> WarmJob::bringMissing(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                   const WarmShard& shard, std::uint32_t entry, Windows& windows,
                                   std::uint64_t& fetched) {
  const ManifestEntry about = job->options_.dataset->manifest->entry(entry);
  for (int look = 0; look < kLooks && about.size != 0 && !job->stopped(); ++look) {
    Task<HeldElsewhere> looking = shard.directory.heldElsewhere(about.key, about.size);
    const HeldElsewhere elsewhere = co_await looking;
    const Missing missing = missingOf(ports.cache.find(about.key).get(), about.size, elsewhere);
    if (missing.runs.empty()) {
      if (!missing.coming) break;
      co_await shard.reactor.sleep(kLookAgain);
      continue;
    }
    Task<Result<std::shared_ptr<FileFetch>>> opening =
        shard.fetcher.open(FileReference::of(job->options_.dataset, entry));
    const Result<std::shared_ptr<FileFetch>> opened = co_await opening;
    if (!opened.ok()) co_return opened.error();
    (*opened)->counters = job->counters_;
    for (const ChunkRun& run : missing.runs) {
      for (std::uint32_t chunk = run.first; chunk < run.end(); ++chunk)
        fetched += (*opened)->chunkSize(chunk);
    }
    FileProgress file;
    Task<void> fetching = fetchRuns(job, shard, *opened, missing.runs, windows, file);
    co_await fetching;
    Status status = file.status;
    if (status.ok() && !job->stopped()) status = co_await (*opened)->cache->claimed();
    if (!status.ok()) co_return status;
  }
  co_return Status();
}

// The window is left when the bytes are in memory: what is written behind them holds back no fetch
// until memory is full.
Task<void> WarmJob::fetchRun(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                             std::shared_ptr<FileFetch> fetch, ChunkRun run, Semaphore& window,
                             FileProgress& file, std::shared_ptr<OriginStream> stream) {
  FetchOptions options = job->fetchOptions();
  options.stream = stream;
  options.until = FetchOptions::Until::kInMemory;
  Task<Status> landing = shard.fetcher.ensure(fetch, run.first, run.end(), std::move(options));
  Status ensured = co_await landing;
  // Some of it came from elsewhere: the stream is not where the next run begins.
  if (stream != nullptr && stream->brings(run.end() - 1)) stream->end();
  window.release(1);
  const std::uint64_t bytes = bytesOf(*fetch, run);
  if (ensured.ok()) {
    job->count(file, 0, bytes);
    ensured = co_await shard.fetcher.ensure(fetch, run.first, run.end(), job->fetchOptions());
  }
  if (ensured.ok()) {
    job->count(file, bytes, 0);
    co_return;
  }
  if (file.status.ok()) {
    file.status = ensured;
    file.hung = fetch->cache->hangs();
  }
  // At once: other runs may wait for the origin for a long time. An I/O error may be of a chunk
  // that differs from its digest, which takeFile() looks at.
  if (ensured.code() != ErrorCode::kIoError && !fetch->cache->misplaced())
    job->fail(ensured.error());
}

Task<Status> WarmJob::verifyFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                 const WarmShard& shard, std::shared_ptr<FileFetch> fetch) {
  const std::optional<Sha256Digest> expected = fetch->reference.about.sourceDigest;
  const bool hashed = job->options_.verify == Verification::kDigest && expected.has_value();
  const auto wanted = [job] { return !job->stopped(); };
  // The last look at a byte is the one that counts.
  RepairOptions options{.fetch = job->fetchOptions(),
                        .checked = hashed ? nullptr : &job->bytesVerified_};
  options.fetch.wanted = wanted;
  BadBlocks bad;
  Task<Status> checking =
      checkAndRepair({shard.reactor, shard.fetcher, shard.memory}, fetch, std::move(options), bad);
  const Status checked = co_await checking;
  if (job->stopped()) co_return Status();
  if (!checked.ok()) co_return checked.error().within(fetch->reference.path());
  if (hashed) {
    Task<Result<Sha256Digest>> hashing =
        digestOf(shard.reactor, ports.wholeFiles, shard.fetcher.limits().disk, fetch->cache,
                 &job->bytesVerified_, wanted);
    const Result<Sha256Digest> digest = co_await hashing;
    if (!digest.ok()) co_return digest.error().within(fetch->reference.path());
    if (*digest != *expected) {
      co_return Error{ErrorCode::kCorrupt,
                      fetch->reference.path() +
                          ": the SHA-256 differs from the origin's digest; evict the dataset and "
                          "add it again"};
    }
  }
  job->filesVerified_.fetch_add(1);
  co_return Status();
}

}  // namespace hearth
