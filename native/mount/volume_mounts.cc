#include <map>
#include <utility>

#include "mount/holder_link.h"
#include "mount/mount_record.h"
#include "mount/mounted.h"
#include "mount/mounts.h"
#include "volume_mount/volume_service.h"
#include "volume_mount/volume_session.h"

namespace hearth {

Result<std::optional<MountInfo>> Mounts::mountedVolume(const VolumeMountOptions& options) {
  const auto known = mounted_.find(options.target);
  if (known == mounted_.end()) return std::optional<MountInfo>();
  const MountInfo there = known->second->now();
  if (there.volume == options.volume) return std::optional(there);
  return Error{ErrorCode::kInUse, options.target + " serves " + there.source +
                                      " already; unmount it first or choose another folder"};
}

Task<Result<MountInfo>> Mounts::mountVolume(VolumeMountOptions options) {
  const auto there = mountedVolume(options);
  if (!there.ok()) co_return there.error();
  if (*there) co_return **there;
  if (!link_->configured()) co_return HolderLink::notConfigured();
  if (!ports_.volumeFiles) {
    co_return Error{ErrorCode::kNotFound, "this agent has no writable volumes"};
  }
  const Result<std::shared_ptr<VolumeFiles>> files = co_await ports_.volumeFiles(options.volume);
  if (!files.ok()) co_return files.error();
  Semaphore& turn = turnOf(options.volume);
  co_await turn.acquire(1);
  Task<Result<MountInfo>> mounting = mountInTurn(std::move(options), *files);
  Result<MountInfo> mounted = co_await mounting;
  turn.release(1);
  co_return mounted;
}

Semaphore& Mounts::turnOf(tree::WideId volume) {
  std::unique_ptr<Semaphore>& turn = turns_[volume];
  if (turn == nullptr) turn = std::make_unique<Semaphore>(home_.reactor, 1);
  return *turn;
}

Task<Result<MountInfo>> Mounts::mountInTurn(VolumeMountOptions options,
                                            std::shared_ptr<VolumeFiles> files) {
  if (const Status connected = co_await connect(); !connected.ok()) co_return connected.error();
  if (const Status served = co_await serveWaiting(options.volume, files); !served.ok())
    co_return served.error();
  const auto waited = mountedVolume(options);
  if (!waited.ok()) co_return waited.error();
  if (*waited) co_return **waited;
  HolderMountRequest request;
  request.target = options.target;
  request.source = options.source;
  request.blob = encodeVolumeMountRecord({.volume = options.volume, .source = options.source});
  request.writable = true;
  auto mount = [link = link_, request = std::move(request)] {
    const std::shared_ptr<HolderClient> client = link->client();
    return std::make_shared<Result<HeldMount>>(
        client == nullptr ? Result<HeldMount>(HolderLink::notConnected()) : client->mount(request));
  };
  const std::shared_ptr<Result<HeldMount>> held = co_await home_.reactor.offload(blocking_, mount);
  if (!held->ok()) co_return held->error();
  const std::string target = options.target;
  Task<Result<MountInfo>> serving =
      serveVolume(std::move(options), std::make_shared<HeldMount>(std::move(**held)), files);
  const Result<MountInfo> served = co_await serving;
  if (served.ok()) co_return served;
  [[maybe_unused]] const Status unmounted = co_await unmountAtHolder(target, true);
  co_return served;
}

Task<void> Mounts::resumeVolumes(std::vector<tree::WideId> volumes) {
  // The next mount connects, and resumes its volume, when the holder is away now.
  if (link_->configured() && !(co_await connect()).ok()) co_return;
  for (const tree::WideId& id : volumes) {
    if (!ports_.volumeFiles) co_return;
    const Result<std::shared_ptr<VolumeFiles>> files = co_await ports_.volumeFiles(id);
    // Its mounts wait until it is known.
    if (files.code() == ErrorCode::kNotFound) continue;
    Status served = files.ok() ? Status() : Status(files.error());
    if (files.ok()) {
      Semaphore& turn = turnOf(id);
      co_await turn.acquire(1);
      served = co_await serveWaiting(id, *files);
      turn.release(1);
    }
    if (!served.ok()) {
      log(ports_.events, EngineEvent::Level::kError,
          "cannot take over the mounts of a volume: " + served.error().message);
    }
  }
}

Task<Status> Mounts::resumeFiles(tree::WideId id, std::shared_ptr<VolumeFiles> files) {
  ResumedVolume& resumed = resumedVolumes_[id];
  if (resumed.done != nullptr && resumed.files.lock() == files) {
    const std::shared_ptr<Event> done = resumed.done;
    co_await done->wait();
    co_return Status();
  }
  const auto done = std::make_shared<Event>(home_.reactor);
  resumed = {files, done};
  std::map<tree::InodeId, InheritedWriter> byInode;  // of all mounts of the volume
  Status failed;
  for (const auto& [target, waiting] : waiting_) {
    if (waiting.options.volume != id) continue;
    const auto inherited = VolumeService::inherited(waiting.held->shared);
    if (!inherited.ok()) {
      failed = inherited.error().within(target);
      continue;
    }
    for (const InheritedWriter& writer : *inherited) {
      const auto [known, isFirst] = byInode.emplace(writer.inode, writer);
      if (!isFirst) known->second.handles += writer.handles;
    }
  }
  std::vector<InheritedWriter> writers;
  for (const auto& [inode, writer] : byInode) writers.push_back(writer);
  co_await files->reactor().enter();
  co_await files->resume(std::move(writers));
  co_await home_.reactor.enter();
  done->set();
  co_return failed;
}

Task<Status> Mounts::serveWaiting(tree::WideId id, std::shared_ptr<VolumeFiles> files) {
  Status first = co_await resumeFiles(id, files);
  std::vector<WaitingMount> mounts;
  std::erase_if(waiting_, [&](auto& waiting) {
    if (waiting.second.options.volume != id) return false;
    mounts.push_back(std::move(waiting.second));
    return true;
  });
  for (WaitingMount& waiting : mounts) {
    const std::string target = waiting.options.target;
    Task<Result<MountInfo>> serving =
        serveVolume(std::move(waiting.options), std::move(waiting.held), files);
    const Result<MountInfo> served = co_await serving;
    if (!served.ok() && first.ok()) first = served.error().within(target);
  }
  co_return first;
}

Task<Result<MountInfo>> Mounts::serveVolume(VolumeMountOptions options,
                                            std::shared_ptr<HeldMount> held,
                                            std::shared_ptr<VolumeFiles> files) {
  FuseSessionOptions session = sessionOf(*held);
  VolumeServiceOptions service;
  service.threads = &volumeReads_;
  service.saveState = session.saveState;
  service.readFailed = [events = ports_.events, source = options.source](const Error& reason) {
    if (reason.code == ErrorCode::kCancelled) return;
    log(events, EngineEvent::Level::kWarn, "a read through a mount failed: " + reason.message,
        {{"source", source}});
  };
  auto start = [held, files, link = link_, session = std::move(session),
                service = std::move(service)]() mutable {
    using Started = Result<std::unique_ptr<FuseSession>>;
    // Before the session, whose first act is to save its state.
    if (const Status kept = link->serve(*held); !kept)
      return std::make_shared<Started>(kept.error());
    auto made =
        VolumeService::create(files, std::move(held->device), held->shared, std::move(service));
    if (!made) return std::make_shared<Started>(made.error());
    return std::make_shared<Started>(startVolumeSession(std::move(*made), std::move(session)));
  };
  const auto started = co_await home_.reactor.offload(blocking_, std::move(start));
  if (!started->ok()) {
    link_->forget(options.target);
    co_return started->error();
  }
  auto mounted = std::make_unique<Mounted>();
  mounted->session = std::move(**started);
  mounted->info.target = options.target;
  mounted->info.source = options.source;
  mounted->info.volume = options.volume;
  mounted->info.dataPath = "fuse";
  const MountInfo info = mounted->now();
  mounted_[options.target] = std::move(mounted);
  co_return info;
}

}  // namespace hearth
