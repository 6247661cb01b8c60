// How the pace of a job holds it back.
#include <algorithm>

#include "warm/warm_job.h"

namespace hearth {
namespace {

constexpr auto kPaceStep = std::chrono::milliseconds(50);

}  // namespace

std::uint64_t WarmJob::bytesOf(const FileFetch& fetch, ChunkRun run) {
  std::uint64_t bytes = 0;
  for (std::uint32_t chunk = run.first; chunk < run.end(); ++chunk) bytes += fetch.chunkSize(chunk);
  return bytes;
}

Task<void> WarmJob::keepPace(std::shared_ptr<WarmJob> job, Reactor& reactor, std::uint64_t bytes) {
  if (!job->options_.pace) co_return;
  while (!job->stopped()) {
    const Clock::duration wait = job->options_.pace(bytes);
    if (wait == Clock::duration::zero()) co_return;
    // In short steps, so that neither a cancelled job nor a new pace keeps anyone waiting.
    co_await reactor.sleep(std::min<Clock::duration>(wait, kPaceStep));
  }
}

}  // namespace hearth
