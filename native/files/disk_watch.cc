#include "files/disk_watch.h"

#include <algorithm>

namespace hearth {
namespace {

const char* nameOf(DiskOperation operation) {
  switch (operation) {
    case DiskOperation::kOpenToRead:
    case DiskOperation::kOpenToWrite:
      return "an open";
    case DiskOperation::kRead:
      return "a read";
    case DiskOperation::kWrite:
      return "a write";
    case DiskOperation::kSync:
    case DiskOperation::kSyncDirectory:
      return "a sync";
    case DiskOperation::kTruncate:
      return "a truncate";
    case DiskOperation::kInfo:
      return "a stat";
    case DiskOperation::kRename:
      return "a rename";
    case DiskOperation::kLink:
      return "a link";
    case DiskOperation::kUnlink:
      return "an unlink";
    case DiskOperation::kMakeDirectory:
      return "a mkdir";
    case DiskOperation::kChangeMode:
      return "a chmod";
    case DiskOperation::kList:
      return "a listing";
    case DiskOperation::kSpace:
      return "a statfs";
  }
  return "a call";
}

}  // namespace

DiskWatch::DiskWatch(std::string path, std::size_t threads)
    : path_(std::move(path)), threads_(ThreadPool::Options{.threads = threads}) {}

void DiskWatch::setStall(Clock::duration stall) {
  const std::lock_guard lock(mutex_);
  stall_ = stall;
}

void DiskWatch::setObserver(std::function<void()> hung) {
  const std::lock_guard lock(mutex_);
  hung_ = std::move(hung);
}

Error DiskWatch::error() const {
  const std::lock_guard lock(mutex_);
  return {ErrorCode::kUnavailable, "the disk of " + path_ + " does not answer: " +
                                       (hanging_.empty() ? std::string("a call") : hanging_) +
                                       " hangs; look after the disk, or the server, that it is on"};
}

std::optional<DiskWatch::Call> DiskWatch::begin(DiskOperation operation, bool trial) {
  const std::lock_guard lock(mutex_);
  if (!trial && refuses(operation)) return std::nullopt;
  Kind& kind = kinds_[static_cast<std::size_t>(operation)];
  if (kind.begun.empty()) kind.stalled = kind.still = {};
  kind.begun.push_back(Clock::now());
  return Call(*this, operation, std::prev(kind.begun.end()));
}

void DiskWatch::end(DiskOperation operation, Call::Place place) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[static_cast<std::size_t>(operation)];
  kind.begun.erase(place);
  kind.stalled = kind.still = {};
  if (!showsWriting(operation)) return;
  for (std::size_t i = 0; i < kDiskOperations; ++i) {
    if (!isRead(static_cast<DiskOperation>(i))) kinds_[i].still = {};
  }
}

// A process that did not run, or a reactor that was busy, counts two looks at most: what has ended
// meanwhile is seen before the next look.
void DiskWatch::look() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  const Clock::time_point since = std::max(lookedAt_, now - 2 * kLook);
  lookedAt_ = now;
  for (std::size_t i = 0; i < kDiskOperations; ++i) {
    Kind& kind = kinds_[i];
    if (kind.begun.empty()) continue;
    const Clock::duration passed = now - std::max(since, std::min(kind.begun.front(), now));
    kind.stalled += passed;
    kind.still += passed;
    const auto operation = static_cast<DiskOperation>(i);
    const bool hangs = kind.still >= stall_ || kind.stalled >= std::max(stall_, kLongestChange);
    if (!hangs || refuses(operation)) continue;
    if (!changesHang()) hanging_ = nameOf(operation);
    (isRead(operation) ? readsHang_ : changesHang_).store(true, std::memory_order_release);
    if (hung_) hung_();
  }
}

bool DiskWatch::isIdleLocked() const {
  return std::ranges::all_of(kinds_, [](const Kind& kind) { return kind.begun.empty(); });
}

bool DiskWatch::isIdle() const {
  const std::lock_guard lock(mutex_);
  return isIdleLocked();
}

bool DiskWatch::beginTrial() {
  const std::lock_guard lock(mutex_);
  if (trying_) return false;
  // Where changes alone hang, reads go on.
  for (std::size_t i = 0; i < kDiskOperations; ++i) {
    if (!kinds_[i].begun.empty() && refuses(static_cast<DiskOperation>(i))) return false;
  }
  trying_ = true;
  return true;
}

void DiskWatch::endTrial(bool works) {
  const std::lock_guard lock(mutex_);
  trying_ = false;
  if (!works) return;
  hanging_.clear();
  readsHang_.store(false, std::memory_order_release);
  changesHang_.store(false, std::memory_order_release);
}

}  // namespace hearth
