// The figures of a job while it runs.
#include <algorithm>

#include "warm/warm_job.h"

namespace hearth {

WarmProgress WarmJob::progress() const {
  WarmProgress progress;
  progress.bytesTotal = bytesTotal_;
  progress.bytesReady = bytesReady_.load();
  progress.bytesInMemory = std::max(bytesInMemory_.load(), progress.bytesReady);
  progress.filesTotal = static_cast<std::uint32_t>(options_.entries.size());
  progress.filesReady = filesReady_.load();
  progress.filesVerified = filesVerified_.load();
  progress.originBytes = counters_->originBytes.load();
  progress.peerBytes = counters_->peerBytes.load();
  progress.bytesVerified = bytesVerified_.load();
  progress.state = state_.load();
  if (progress.state == WarmState::kRunning && options_.verify != Verification::kNone &&
      progress.filesReady == progress.filesTotal) {
    progress.state = WarmState::kVerifying;
  }
  const std::string absence = options_.dataset->absence.words();
  if (progress.state == WarmState::kRunning && !absence.empty())
    progress.waitingFor = "the origin is away: " + absence;
  const std::lock_guard lock(mutex_);
  progress.error = error_;
  return progress;
}

void WarmJob::count(FileProgress& file, std::uint64_t ready, std::uint64_t inMemory) {
  file.ready += ready;
  file.inMemory += inMemory;
  bytesReady_.fetch_add(ready);
  bytesInMemory_.fetch_add(inMemory);
}

void WarmJob::uncount(const FileProgress& file) {
  bytesReady_.fetch_sub(file.ready);
  bytesInMemory_.fetch_sub(file.inMemory);
}

}  // namespace hearth
