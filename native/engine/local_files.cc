#include "engine/local_files.h"

#include "cache/verified_read.h"
#include "engine/client_answers.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"

namespace hearth {

// A file that a client has: it stays in the cache and in memory.
class LocalFiles::Passed final : public PassedFile {
 public:
  Passed(Reactor& reactor, std::shared_ptr<PassedMounts> mounts, std::shared_ptr<FileFetch> fetch,
         std::shared_ptr<CachedFile> copy)
      : reactor_(reactor),
        mounts_(std::move(mounts)),
        fetch_(std::move(fetch)),
        copy_(std::move(copy)) {}
  ~Passed() override {
    if (number_ != 0) mounts_->forget(number_);
  }
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;

  Task<bool> isOpen() override {
    auto look = [mounts = mounts_, number = number_] { return mounts->isOpen(number); };
    const bool open = co_await reactor_.offload(look);
    if (!open) number_ = 0;
    co_return open;
  }
  [[nodiscard]] std::uint64_t size() const override { return fetch_->cache->size(); }

  // kTryElsewhere where it cannot be passed. Blocks for system calls.
  [[nodiscard]] Result<OwnedFd> open() {
    Result<OwnedFd> descriptor = Error{ErrorCode::kTryElsewhere, "the file is not in memory"};
    if (copy_ != nullptr) descriptor = open(*copy_);
    if (!descriptor.ok() && servableWhole(*fetch_)) descriptor = open(*fetch_->cache);
    return descriptor;
  }

 private:
  [[nodiscard]] Result<OwnedFd> open(const CachedFile& file) {
    const std::string path = file.path();
    if (mounts_ == nullptr || !mounts_->contains(path))
      return Error{ErrorCode::kTryElsewhere,
                   "this agent cannot pass the file in a way that keeps its bytes from changes"};
    Result<PassedMounts::Passed> passed = mounts_->open(path);
    if (!passed.ok()) return passed.error();
    number_ = passed->number;
    return std::move(passed->descriptor);
  }

  Reactor& reactor_;
  const std::shared_ptr<PassedMounts> mounts_;
  const std::shared_ptr<FileFetch> fetch_;
  const std::shared_ptr<CachedFile> copy_;  // in memory, which the client reads if it can; or null
  std::uint64_t number_ = 0;                // of the mount; 0: none, or none any more
};

Task<void> LocalFiles::passFrom(std::vector<CacheDirectoryOptions> directories) {
  Reactor& home = *commons_.shards.front()->reactor;
  const auto warn = [this](const std::string& files, const Error& reason) {
    commons_.log(EngineEvent::Level::kWarn,
                 "clients of this node read " + files +
                     " over the network: no read-only descriptors can be passed, since " +
                     reason.message);
  };
  auto make = [] {
    return std::make_shared<Result<std::unique_ptr<PassedMounts>>>(PassedMounts::create());
  };
  const auto made = co_await home.offload(make);
  if (!made->ok()) co_return warn("all files", made->error());
  const std::shared_ptr<PassedMounts> mounts = std::move(**made);
  for (const CacheDirectoryOptions& directory : directories) {
    auto add = [mounts, objects = directory.path + "/objects"] { return mounts->add(objects); };
    const Status added = co_await home.offload(add);
    if (!added.ok()) warn("files of " + directory.path, added.error());
  }
  mounts_ = mounts;
}

ClientLimits LocalFiles::openBytes(const std::vector<CacheDirectoryOptions>& directories) {
  std::uint64_t budget = 0;
  for (const CacheDirectoryOptions& directory : directories) budget += directory.budgetBytes;
  return {budget - budget / 8, budget - budget / 4, budget - budget / 4};
}

Task<Result<LocalAnswer>> LocalFiles::onLocalRequest(std::shared_ptr<const Capability> client,
                                                     ControlMessage request) {
  // Other messages are the same for all clients.
  if (request.type != static_cast<std::uint16_t>(ClientMessage::kOpen)) {
    PeerService& service = *commons_.shards.front()->peerService;
    Task<Result<ControlMessage>> handling =
        service.onClientControl(std::move(client), std::move(request), Interest());
    Result<ControlMessage> answer = co_await handling;
    if (!answer.ok()) co_return answer.error();
    LocalAnswer local;
    local.message = std::move(*answer);
    co_return local;
  }
  const Result<std::string> path = decodePath(request.body);
  if (!path.ok()) co_return path.error();
  const Result<NamedEntry> found =
      commons_.clientDatasets.resolve(*client, CapabilityRight::kRead, *path);
  if (!found.ok()) co_return found.error();
  FileReference file = FileReference::of(found->revision, found->entry);
  if (file.about.kind != EntryKind::kFile)
    co_return Error{ErrorCode::kInvalidArgument, "the path leads to no file"};
  const ResolvedPath resolved = resolvedPath(file.about);
  Shard& owner = commons_.owner(resolved.key);
  co_await owner.reactor->enter();
  Task<Result<LocalAnswer>> opening = openHere(owner, std::move(file));
  Result<LocalAnswer> answer = co_await opening;
  if (answer.ok()) answer->message = {request.type, encode(resolved)};
  co_return answer;
}

Task<Result<LocalAnswer>> LocalFiles::openHere(Shard& owner, FileReference file) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  std::shared_ptr<CachedFile> copy = owner.commons.memoryFiles->find((*opened)->key());
  if (copy == nullptr && !servableWhole(**opened))
    co_return Error{ErrorCode::kTryElsewhere,
                    "the file is not whole on this node, or not yet compared with its digest"};
  Reactor& home = *commons_.shards.front()->reactor;
  const auto passed = std::make_shared<Passed>(home, mounts_, *opened, std::move(copy));
  auto open = [passed]() -> Result<std::shared_ptr<OwnedFd>> {
    Result<OwnedFd> descriptor = passed->open();
    if (!descriptor.ok()) return descriptor.error();
    return std::make_shared<OwnedFd>(std::move(*descriptor));
  };
  const Result<std::shared_ptr<OwnedFd>> descriptor =
      co_await callDisk((*opened)->cache, std::move(open));
  if (!descriptor.ok()) co_return Error{ErrorCode::kTryElsewhere, descriptor.error().message};
  (*opened)->cache->touch();
  LocalAnswer answer;
  answer.descriptor = std::move(**descriptor);
  answer.file = passed;
  co_return answer;
}

}  // namespace hearth
