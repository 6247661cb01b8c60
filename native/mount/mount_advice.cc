#include "mount/mount_advice.h"

#include "manifest/manifest_walk.h"

namespace hearth {
namespace {

// Look-ahead holds a file that was closed just now for a moment, so letting go is tried again.
constexpr int kRounds = 4;
constexpr auto kLetGoAgain = std::chrono::seconds(1);

bool willNeed(Advice advice) {
  return advice == Advice::kWillNeed || advice == Advice::kWillNeedCluster;
}

// True: advice `one` does what `other` does, too; both are of one kind.
bool includes(Advice one, Advice other) {
  if (willNeed(one) != willNeed(other)) return false;
  return one == other || one == Advice::kWillNeed || one == Advice::kDontNeed;
}

bool opposes(Advice one, Advice other) {
  if (one == Advice::kDontNeedMemory || other == Advice::kDontNeedMemory) return false;
  return willNeed(one) != willNeed(other);
}

}  // namespace

bool MountAdvice::contains(std::uint32_t entry, std::uint32_t other) const {
  const Manifest& manifest = *dataset_->manifest;
  for (;;) {
    if (other == entry) return true;
    const std::uint32_t parent = manifest.entry(other).parent;
    if (parent == other) return false;
    other = parent;
  }
}

bool MountAdvice::hasRoom(std::size_t files, std::uint64_t reader) const {
  std::size_t requests = 1;
  for (const std::shared_ptr<Request>& other : requests_) {
    if (other->reader != reader) continue;
    ++requests;
    files += other->files;
  }
  return requests <= kMaxRequests && files <= kMaxFiles;
}

Status MountAdvice::admit(const std::shared_ptr<Request>& request, std::uint64_t reader) {
  if (closed_) return Error{ErrorCode::kCancelled, "the mount is no longer served"};
  if (Request* sharing = covering(*request); sharing != nullptr) {
    if (sharing->readers.size() < kMaxSharers) sharing->readers.insert(reader);
    cancelOpposites(*request, reader);
    return {};
  }
  if (!hasRoom(request->files, reader)) {
    return Error{ErrorCode::kUnavailable,
                 "too much advice of this reader is under way; ask again later"};
  }
  if (requests_.size() >= kMaxReaders * kMaxRequests ||
      files_ + request->files > kMaxReaders * kMaxFiles) {
    return Error{ErrorCode::kUnavailable,
                 "too much advice for this mount is under way; ask again later"};
  }
  cancelOpposites(*request, reader);
  request->reader = reader;
  request->readers = {reader};
  requests_.push_back(request);
  files_ += request->files;
  return {};
}

MountAdvice::Request* MountAdvice::covering(const Request& request) const {
  for (const std::shared_ptr<Request>& other : requests_) {
    if (!other->cancelled.load() && includes(other->advice, request.advice) &&
        contains(other->entry, request.entry)) {
      return other.get();
    }
  }
  return nullptr;
}

void MountAdvice::cancelOpposites(const Request& request, std::uint64_t reader) {
  for (const std::shared_ptr<Request>& other : requests_) {
    if (opposes(other->advice, request.advice) && contains(request.entry, other->entry) &&
        other->readers.erase(reader) != 0 && other->readers.empty()) {
      other->cancel();
    }
  }
}

Status MountAdvice::advise(std::uint32_t entry, Advice advice, std::uint64_t reader,
                           WarmPace pace) {
  const Manifest& manifest = *dataset_->manifest;
  std::vector<std::uint32_t> files;
  for (const std::uint32_t leaf : leavesBelow(manifest, entry, 0, kMaxFiles + 1)) {
    if (manifest.entry(leaf).kind == EntryKind::kFile) files.push_back(leaf);
  }
  if (files.size() > kMaxFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 manifest.path(entry) + " has more than " + std::to_string(kMaxFiles) +
                     " files; name folders in it, or use hearth advise"};
  }
  const auto request = std::make_shared<Request>();
  request->entry = entry;
  request->advice = advice;
  request->files = files.size();
  if (willNeed(advice)) {
    WarmOptions options;
    options.dataset = dataset_;
    options.entries = files;
    options.verify = Verification::kNone;
    options.pace = std::move(pace);
    options.scope = advice == Advice::kWillNeedCluster ? WarmScope::kCluster : WarmScope::kNode;
    request->job = std::make_shared<WarmJob>(std::move(options));
  }
  {
    const std::lock_guard lock(mutex_);
    if (const Status admitted = admit(request, reader); !admitted) return admitted;
    if (request->readers.empty()) return {};  // a request covers it already
  }
  count(*request);
  MountShard& home = ports_.home();
  home.reactor.post([self = shared_from_this(), &home, request, files = std::move(files)] {
    home.gate.spawn(run(self, request, files));
  });
  return {};
}

void MountAdvice::count(const Request& request) {
  AdviceCounters& counters = ports_.advice;
  if (request.job == nullptr) {
    counters.dontNeed.fetch_add(1);
    return;
  }
  counters.willNeed.fetch_add(1);
  counters.willNeedBytes.fetch_add(request.job->progress().bytesTotal);
}

Task<void> MountAdvice::run(std::shared_ptr<MountAdvice> advice, std::shared_ptr<Request> request,
                            std::vector<std::uint32_t> files) {
  const MountPorts& ports = advice->ports_;
  if (request->job != nullptr) {
    co_await WarmJob::run(request->job, ports.warming);
  } else {
    co_await letGo(ports, advice->dataset_, request, std::move(files));
  }
  const std::lock_guard lock(advice->mutex_);
  advice->requests_.remove(request);
  advice->files_ -= request->files;
}

Task<void> MountAdvice::letGo(const MountPorts& ports, std::shared_ptr<Dataset> dataset,
                              std::shared_ptr<Request> request, std::vector<std::uint32_t> files) {
  MountShard& home = ports.home();
  const LetGo what = request->advice == Advice::kDontNeedMemory ? LetGo::kMemory : LetGo::kCopy;
  for (int round = 0; round < kRounds && !files.empty(); ++round) {
    if (round != 0) co_await home.reactor.sleep(kLetGoAgain);
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t file : files) {
      if (request->cancelled.load() || home.gate.closed()) co_return;
      const bool gone = co_await ports.letGoOfFile(dataset, file, what);
      if (!gone) kept.push_back(file);
    }
    files = std::move(kept);
  }
}

void MountAdvice::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const std::shared_ptr<Request>& request : requests_) request->cancel();
}

std::size_t MountAdvice::underWay() const {
  const std::lock_guard lock(mutex_);
  return requests_.size();
}

}  // namespace hearth
