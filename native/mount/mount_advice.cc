#include "mount/mount_advice.h"

#include "manifest/manifest_walk.h"

namespace hearth {
namespace {

// A file that was closed just now is held for a moment by what was fetched ahead for its reader.
constexpr int kEvictions = 4;
constexpr auto kEvictAgain = std::chrono::seconds(1);

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
    if (!other->cancelled.load() && other->willNeed == request.willNeed &&
        contains(other->entry, request.entry)) {
      return other.get();
    }
  }
  return nullptr;
}

void MountAdvice::cancelOpposites(const Request& request, std::uint64_t reader) {
  for (const std::shared_ptr<Request>& other : requests_) {
    if (other->willNeed != request.willNeed && contains(request.entry, other->entry) &&
        other->readers.erase(reader) != 0 && other->readers.empty()) {
      other->cancel();
    }
  }
}

Status MountAdvice::advise(std::uint32_t entry, bool willNeed, std::uint64_t reader) {
  const Manifest& manifest = *dataset_->manifest;
  std::vector<std::uint32_t> files;
  for (const std::uint32_t leaf : leavesBelow(manifest, entry, 0, kMaxFiles + 1)) {
    if (manifest.entry(leaf).kind == EntryKind::kFile) files.push_back(leaf);
  }
  if (files.size() > kMaxFiles) {
    return Error{ErrorCode::kInvalidArgument,
                 manifest.path(entry) + " has more than " + std::to_string(kMaxFiles) +
                     " files; name folders in it, or use hearth warm or hearth evict"};
  }
  const auto request = std::make_shared<Request>();
  request->entry = entry;
  request->willNeed = willNeed;
  request->files = files.size();
  if (willNeed) {
    WarmOptions options;
    options.dataset = dataset_;
    options.entries = files;
    options.verify = Verification::kNone;
    request->job = std::make_shared<WarmJob>(std::move(options));
  }
  {
    const std::lock_guard lock(mutex_);
    if (const Status admitted = admit(request, reader); !admitted) return admitted;
    if (request->readers.empty()) return {};  // it goes on already
  }
  MountShard& home = ports_.home();
  home.reactor.post([self = shared_from_this(), &home, request, files = std::move(files)] {
    home.gate.spawn(run(self, request, files));
  });
  return {};
}

Task<void> MountAdvice::run(std::shared_ptr<MountAdvice> advice, std::shared_ptr<Request> request,
                            std::vector<std::uint32_t> files) {
  const MountPorts& ports = advice->ports_;
  if (request->willNeed) {
    co_await WarmJob::run(request->job, ports.warming);
  } else {
    co_await evict(ports, advice->dataset_, request, std::move(files));
  }
  const std::lock_guard lock(advice->mutex_);
  advice->requests_.remove(request);
  advice->files_ -= request->files;
}

Task<void> MountAdvice::evict(const MountPorts& ports, std::shared_ptr<Dataset> dataset,
                              std::shared_ptr<Request> request, std::vector<std::uint32_t> files) {
  MountShard& home = ports.home();
  for (int round = 0; round < kEvictions && !files.empty(); ++round) {
    if (round != 0) co_await home.reactor.sleep(kEvictAgain);
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t file : files) {
      if (request->cancelled.load() || home.gate.closed()) co_return;
      const bool evicted = co_await ports.evictFile(dataset, file);
      if (!evicted) kept.push_back(file);
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
