#include "engine/local_files.h"

#include "engine/client_answers.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"

namespace hearth {

Task<void> LocalFiles::passFrom(std::vector<CacheDirectoryOptions> directories) {
  for (const CacheDirectoryOptions& directory : directories) {
    auto mount = [objects = directory.path + "/objects"] {
      return std::make_shared<Result<ReadOnlyFolder>>(ReadOnlyFolder::of(objects));
    };
    const auto folder = co_await commons_.shards.front()->reactor->offload(mount);
    if (folder->ok()) {
      folders_.push_back(std::move(**folder));
      continue;
    }
    commons_.log(EngineEvent::Level::kWarn,
                 "clients of this node read files of " + directory.path +
                     " over the network: no read-only descriptors can be passed, since " +
                     folder->error().message);
  }
}

Task<Result<LocalAnswer>> LocalFiles::onLocalRequest(std::shared_ptr<const Capability> client,
                                                     ControlMessage request) {
  // Other messages are the same for all clients.
  if (request.type != static_cast<std::uint16_t>(ClientMessage::kOpen)) {
    PeerService& service = *commons_.shards.front()->peerService;
    Task<Result<ControlMessage>> handling =
        service.onClientControl(std::move(client), std::move(request));
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
  const auto passed = std::make_shared<Passed>();
  passed->fetch = *opened;
  passed->copy = owner.commons.memoryFiles->find((*opened)->key());
  if (passed->copy == nullptr && !servableWhole(**opened))
    co_return Error{ErrorCode::kTryElsewhere,
                    "the file is not whole on this node, or not yet compared with its digest"};
  auto open = [this, passed] {
    Result<OwnedFd> descriptor = Error{ErrorCode::kTryElsewhere, "the file is not in memory"};
    if (passed->copy != nullptr) descriptor = openForClient(*passed->copy);
    if (!descriptor.ok() && servableWhole(*passed->fetch))
      descriptor = openForClient(*passed->fetch->cache);
    return std::make_shared<Result<OwnedFd>>(std::move(descriptor));
  };
  const std::shared_ptr<Result<OwnedFd>> descriptor = co_await owner.reactor->offload(open);
  if (!descriptor->ok()) co_return descriptor->error();
  (*opened)->cache->touch();
  LocalAnswer answer;
  answer.descriptor = std::move(**descriptor);
  answer.keep = passed;
  co_return answer;
}

Result<OwnedFd> LocalFiles::openForClient(const CachedFile& file) const {
  const std::string path = file.path();
  for (const ReadOnlyFolder& folder : folders_) {
    if (folder.contains(path)) return folder.open(path);
  }
  return Error{ErrorCode::kTryElsewhere,
               "this agent cannot pass the file in a way that keeps its bytes from changes"};
}

}  // namespace hearth
