// Files that a warm job brings by one request each.
#include "fetch/origin_stream.h"
#include "warm/warm_job.h"

namespace hearth {
namespace {

// Runs of each: while one is filled the next one gets its grant and its memory.
constexpr std::uint64_t kStreamRuns = 2;

}  // namespace

bool WarmJob::streams(std::uint64_t size) const {
  if (options_.rateLimit != 0) return false;
  // The last streams are to end together: what is left for the others takes them as long.
  return (kStreams - 1) * size <= bytesTotal_ - std::min(bytesTotal_, bytesInMemory_.load());
}

Task<std::uint32_t> WarmJob::streamFile(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                                        std::shared_ptr<FileFetch> fetch, Gate& running,
                                        FileProgress& file, std::shared_ptr<OriginStream>& stream) {
  const auto streams = [&] {
    return !job->stopped() && job->streams(fetch->cache->size()) &&
           shard.fetcher.mayStream(*fetch, job->counters_->originBytes.load());
  };
  if (!streams()) co_return 0;
  OriginTurns::Turn turn = job->streams_.ask(shard.reactor, 1);
  while (!turn.held() && !job->stopped()) co_await turn.wait(Clock::now() + kLookAgain);
  if (!streams()) co_return 0;  // it may be otherwise by now
  stream = shard.fetcher.stream(*fetch);
  Semaphore window(shard.reactor, kStreamRuns);
  const std::uint32_t count = fetch->cache->chunkCount();
  std::uint32_t first = 0;
  while (first < count) {
    co_await window.acquire(1);
    const ChunkRun run{first, std::min(kRunChunks, count - first)};
    Task<void> pacing = keepPace(job, shard.reactor, bytesOf(*fetch, run));
    co_await pacing;
    if (job->stopped() || !file.status.ok() || !stream->brings(first)) {
      window.release(1);
      break;
    }
    first = run.end();
    running.spawn(fetchRun(job, shard, fetch, run, window, file, stream));
  }
  co_await window.acquire(kStreamRuns);  // all have come, or failed
  stream->end();
  co_return first;
}

}  // namespace hearth
