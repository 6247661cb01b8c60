#include "mount/mounts.h"

#include <algorithm>

#include "holder/child_call.h"
#include "holder/holder_client.h"
#include "mount/dataset_source.h"
#include "mount/holder_link.h"
#include "mount/mount_record.h"
#include "mount/mounted.h"
#include "mount/view_mount.h"

namespace hearth {
namespace {

// Reads that wait for bytes when the agent stops get this long; then the next agent answers them.
constexpr auto kHandOverTimeout = std::chrono::milliseconds(200);

}  // namespace

Mounts::Mounts(const MountPorts& ports, ManifestStore& manifests,
               std::chrono::milliseconds callDeadline)
    : ports_(ports),
      home_(ports.home()),
      manifests_(manifests),
      link_(ports.holder),
      calls_(std::make_shared<ChildCalls>(callDeadline)) {}

Mounts::~Mounts() = default;

Task<Result<MountInfo>> Mounts::mount(MountOptions options) {
  const auto known = mounted_.find(options.target);
  if (known != mounted_.end()) {
    const MountInfo there = known->second->now();
    const bool same = there.manifest == options.dataset->manifest->digest() &&
                      (known->second->view || there.source == options.source);
    if (same) co_return there;
    co_return Error{ErrorCode::kInUse, options.target + " serves " + there.source +
                                           " already; unmount it first or choose another folder"};
  }
  if (options.path == MountOptions::Path::kFuse || options.path == MountOptions::Path::kDaemon) {
    const std::string reason = "asked for";
    co_return co_await mountFuse(std::move(options), reason);
  }
  if (options.path == MountOptions::Path::kAuto && !passthroughRefused_ && link_->configured() &&
      co_await isInMemory(options.dataset)) {
    const Result<MountInfo> memory = co_await mountMemory(options);
    if (memory.ok()) co_return memory;
  }
  const Result<MountInfo> view = co_await mountView(options);
  if (view.ok() || options.path == MountOptions::Path::kView) co_return view;
  const bool cannot = view.code() == ErrorCode::kNotFound || view.code() == ErrorCode::kUnsupported;
  if (!cannot) co_return view;
  const std::string reason = view.error().message;
  co_return co_await mountFuse(std::move(options), reason);
}

Task<bool> Mounts::isInMemory(std::shared_ptr<Dataset> dataset) {
  if (ports_.memoryFiles.use().room.usedBytes == 0) co_return false;
  auto look = [dataset, &files = ports_.memoryFiles] {
    const Manifest& manifest = *dataset->manifest;
    for (std::uint32_t entry = 0; entry < manifest.totals().entries; ++entry) {
      const ManifestEntry about = manifest.entry(entry);
      if (about.kind == EntryKind::kFile && files.hasRoom(about.key)) return true;
    }
    return false;
  };
  co_return co_await home_.reactor.offload(blocking_, look);
}

Task<Result<MountInfo>> Mounts::mountMemory(MountOptions options) {
  const std::string target = options.target;
  options.path = MountOptions::Path::kFuse;
  Result<MountInfo> mounted = co_await mountFuse(
      std::move(options), "files of it are in memory, which a view does not read");
  if (!mounted.ok() || mounted->dataPath == "fuse") co_return mounted;
  passthroughRefused_ = true;
  const std::string reason = mounted->reason;
  if (const Status unmounted = co_await unmount(target); !unmounted.ok())
    co_return unmounted.error();
  co_return Error{ErrorCode::kUnsupported, reason};
}

Task<Result<MountInfo>> Mounts::mountView(MountOptions options) {
  const Sha256Digest digest = options.dataset->manifest->digest();
  const Result<std::string> view = co_await ports_.cache.buildView(options.dataset->manifest);
  co_await home_.reactor.enter();
  if (!view.ok()) co_return view.error();
  // Publishes the view before it is bound: from then on nothing may evict it.
  const std::string name = viewPublishName(options.target);
  const Status published = co_await ports_.cache.publish(name, digest);
  co_await home_.reactor.enter();
  if (!published.ok()) co_return published.error();
  auto bind = [calls = calls_, path = *view, target = options.target] {
    return bindView(*calls, path, target);
  };
  const Status bound = co_await home_.reactor.offload(blocking_, bind);
  if (!bound.ok()) {
    [[maybe_unused]] const Status withdrawn = co_await ports_.cache.unpublish(name);
    co_await home_.reactor.enter();
    co_return bound.error();
  }
  auto mounted = std::make_unique<Mounted>();
  mounted->view = true;
  mounted->info.target = options.target;
  mounted->info.source = options.source;
  mounted->info.manifest = digest;
  mounted->info.dataPath = "view";
  const MountInfo info = mounted->info;
  mounted_[options.target] = std::move(mounted);
  co_return info;
}

Task<Status> Mounts::adoptViews() {
  auto find = [published = ports_.cache.published()] {
    return std::make_shared<Result<BoundViews>>(findBoundViews(published));
  };
  const std::shared_ptr<Result<BoundViews>> views = co_await home_.reactor.offload(blocking_, find);
  if (!views->ok()) co_return views->error();
  for (const auto& [target, digest] : (*views)->mounted) {
    if (mounted_.contains(target)) continue;
    auto mounted = std::make_unique<Mounted>();
    mounted->view = true;
    mounted->info.target = target;
    mounted->info.source = "hearth";
    mounted->info.manifest = digest;
    mounted->info.dataPath = "view";
    mounted_[target] = std::move(mounted);
  }
  for (const std::string& name : (*views)->gone) {
    const Status withdrawn = co_await ports_.cache.unpublish(name);
    co_await home_.reactor.enter();
    if (!withdrawn.ok()) co_return withdrawn;
  }
  co_return Status();
}

Task<Status> Mounts::connect() {
  if (link_->client() == nullptr) {
    auto connect = [link = link_] { return link->connect(); };
    const Status connected = co_await home_.reactor.offload(blocking_, connect);
    if (!connected.ok()) co_return connected;
  }
  for (HeldMount& mount : link_->takeMounts()) {
    const std::string target = mount.record.target;
    const Status served = co_await resumeOne(std::make_shared<HeldMount>(std::move(mount)));
    if (!served.ok()) {
      link_->forget(target);
      log(ports_.events, EngineEvent::Level::kError,
          "cannot take over a mount of the previous agent: " + served.error().message);
    }
  }
  co_return Status();
}

Task<Status> Mounts::resumeOne(std::shared_ptr<HeldMount> held) {
  const std::string target = held->record.target;
  const auto record = decodeMountRecord(held->record.blob);
  const auto volume = decodeVolumeMountRecord(held->record.blob);
  if (!record && !volume) {
    co_return Error{ErrorCode::kProtocolError,
                    target + " was mounted by another version; unmount it and mount it again"};
  }
  if (held->record.aborted) {
    co_return Error{ErrorCode::kUnavailable,
                    target + " was aborted after the agent had been away too long; unmount it"};
  }
  if (volume) {
    waiting_[target] = {{target, volume->volume, volume->source}, std::move(held)};
    co_return Status();
  }
  const Result<std::shared_ptr<Dataset>> dataset = co_await manifests_.open(record->manifest);
  if (!dataset.ok()) co_return dataset.error().within(target);
  MountOptions options;
  options.target = target;
  options.dataset = manifests_.find(record->manifest, record->dataset());
  options.source = record->source;
  options.path = record->passthrough ? MountOptions::Path::kFuse : MountOptions::Path::kDaemon;
  Task<Result<MountInfo>> serving =
      serve(std::move(options), std::move(held), "mounted by FUSE before the agent was started");
  const Result<MountInfo> served = co_await serving;
  co_return served.ok() ? Status() : Status(served.error());
}

Task<Result<MountInfo>> Mounts::mountFuse(MountOptions options, std::string reason) {
  if (!link_->configured()) {
    co_return Error{
        ErrorCode::kUnsupported,
        "the dataset cannot be bound as a view (" + reason +
            ") and no mount holder is configured for FUSE; start hearth-holder and set its socket"};
  }
  const Status connected = co_await connect();
  if (!connected.ok()) co_return connected.error();
  HolderMountRequest request;
  request.target = options.target;
  request.source = options.source;
  request.blob = encodeMountRecord({.manifest = options.dataset->manifest->digest(),
                                    .source = options.source,
                                    .passthrough = options.path != MountOptions::Path::kDaemon});
  auto mount = [link = link_, request = std::move(request)] {
    const std::shared_ptr<HolderClient> client = link->client();
    return std::make_shared<Result<HeldMount>>(
        client == nullptr ? Result<HeldMount>(HolderLink::notConnected()) : client->mount(request));
  };
  const std::shared_ptr<Result<HeldMount>> held = co_await home_.reactor.offload(blocking_, mount);
  if (!held->ok()) co_return held->error();
  const std::string target = options.target;
  Task<Result<MountInfo>> serving =
      serve(std::move(options), std::make_shared<HeldMount>(std::move(**held)), std::move(reason));
  const Result<MountInfo> served = co_await serving;
  if (served.ok()) co_return served;
  [[maybe_unused]] const Status unmounted = co_await unmountAtHolder(target, true);
  co_return served;
}

Task<Status> Mounts::unmountAtHolder(std::string target, bool force) {
  auto unmount = [link = link_, target, force]() -> Status {
    const std::shared_ptr<HolderClient> client = link->client();
    if (client == nullptr) return HolderLink::notConnected();
    return client->unmount(target, force);
  };
  const Status unmounted = co_await home_.reactor.offload(blocking_, unmount);
  if (unmounted.ok()) link_->forget(target);
  co_return unmounted;
}

FuseSessionOptions Mounts::sessionOf(const HeldMount& held) {
  FuseSessionOptions session;
  session.epoch = held.record.epoch;
  session.state = held.record.state;
  session.saveState = [link = link_, target = held.record.target](const std::string& state) {
    return link->saveState(target, state);
  };
  session.onEnd = [this, target = held.record.target](const Error& why) {
    home_.reactor.post([this, target, why] { ended(target, why); });
  };
  return session;
}

Task<Result<MountInfo>> Mounts::serve(MountOptions options, std::shared_ptr<HeldMount> held,
                                      std::string reason) {
  const bool passthrough = options.path != MountOptions::Path::kDaemon;
  auto source =
      std::make_shared<DatasetSource>(ports_, options.dataset, options.source, passthrough);
  FuseSessionOptions session = sessionOf(*held);
  session.passthrough = passthrough;
  auto start = [held, source, link = link_, session = std::move(session)]() mutable {
    // Before the session, whose first act is to save its state.
    if (const Status kept = link->serve(*held); !kept) {
      return std::make_shared<Result<std::unique_ptr<FuseSession>>>(kept.error());
    }
    return std::make_shared<Result<std::unique_ptr<FuseSession>>>(
        FuseSession::start(std::move(held->device), held->shared, source, std::move(session)));
  };
  const std::shared_ptr<Result<std::unique_ptr<FuseSession>>> started =
      co_await home_.reactor.offload(blocking_, start);
  if (!started->ok()) {
    link_->forget(options.target);
    co_return started->error();
  }
  auto mounted = std::make_unique<Mounted>();
  mounted->session = std::move(**started);
  mounted->dataset = options.dataset;
  mounted->info.target = options.target;
  mounted->info.source = options.source;
  mounted->info.manifest = options.dataset->manifest->digest();
  mounted->info.dataPath = passthrough ? "fuse" : "daemon";
  mounted->info.reason = std::move(reason);
  const MountInfo info = mounted->now();
  mounted_[options.target] = std::move(mounted);
  co_return info;
}

void Mounts::ended(const std::string& target, const Error& why) {
  const auto found = mounted_.find(target);
  if (found == mounted_.end()) return;
  // The session's own thread reported this and must end before the session is destroyed, so that
  // happens on another thread.
  auto session = std::shared_ptr<FuseSession>(std::move(found->second->session));
  mounted_.erase(found);
  link_->forget(target);
  ports_.events({.kind = EngineEvent::Kind::kMountEnded, .target = target, .message = why.message});
  home_.gate.spawn(closeSession(std::move(session), false));
}

Task<void> Mounts::closeSession(std::shared_ptr<FuseSession> session, bool handOver) {
  if (session == nullptr) co_return;
  auto close = [session, handOver] {
    session->close(kHandOverTimeout, handOver);
    return true;
  };
  [[maybe_unused]] const bool closed = co_await home_.reactor.offload(blocking_, close);
}

Task<Status> Mounts::unmount(std::string target) {
  const auto found = mounted_.find(target);
  waiting_.erase(target);
  if (found == mounted_.end() && link_->client() != nullptr) {
    // This agent does not serve the mount (aborted, or of another version), but the holder has it
    // for us.
    co_return co_await unmountAtHolder(target, false);
  }
  if (found == mounted_.end()) {
    co_return Error{ErrorCode::kNotFound, "Hearth has mounted nothing at " + target + " here"};
  }
  if (found->second->view) {
    auto unbind = [calls = calls_, target] { return unbindView(*calls, target); };
    const Status unbound = co_await home_.reactor.offload(blocking_, unbind);
    if (!unbound.ok() && unbound.code() != ErrorCode::kNotFound) co_return unbound;
    mounted_.erase(target);
    const Status withdrawn = co_await ports_.cache.unpublish(viewPublishName(target));
    co_await home_.reactor.enter();
    co_return withdrawn;
  }
  const Status unmounted = co_await unmountAtHolder(target, false);
  if (!unmounted.ok()) co_return unmounted;
  // The session may have reported its end by itself in the meantime.
  const auto again = mounted_.find(target);
  if (again == mounted_.end()) co_return Status();
  auto session = std::shared_ptr<FuseSession>(std::move(again->second->session));
  mounted_.erase(again);
  co_await closeSession(std::move(session), false);
  co_return Status();
}

std::vector<MountInfo> Mounts::list() const {
  std::vector<MountInfo> mounts;
  for (const auto& [target, waiting] : waiting_) {
    mounts.push_back({.target = target,
                      .source = waiting.options.source,
                      .volume = waiting.options.volume,
                      .dataPath = "fuse",
                      .reason = "waits until this agent knows the volume"});
  }
  for (const auto& [target, mounted] : mounted_) {
    mounts.push_back(mounted->now());
    if (mounted->dataset == nullptr || !ThroughReads::lately(*mounted->dataset)) continue;
    mounts.back().dataPath = "through";
    mounts.back().reason =
        "the cache cannot keep all that readers need, for want of room or because its disk failed; "
        "the log has the reason";
  }
  return mounts;
}

Task<Result<std::vector<std::string>>> Mounts::resume() {
  const Status adopted = co_await adoptViews();
  if (!adopted.ok()) co_return adopted.error();
  const Status connected = co_await connect();
  if (!connected.ok()) co_return connected.error();
  std::vector<tree::WideId> volumes;
  std::vector<std::string> targets;
  for (const auto& [target, waiting] : waiting_) {
    volumes.push_back(waiting.options.volume);
    targets.push_back(target);
  }
  co_await resumeVolumes(std::move(volumes));
  for (const auto& [target, mounted] : mounted_) {
    if (std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(target);
  }
  co_return targets;
}

Task<void> Mounts::close() {
  // Closes all sessions at once: each may wait for its reads.
  Gate sessions(home_.reactor);
  for (auto& [target, mounted] : std::exchange(mounted_, {})) {
    if (mounted->session != nullptr) {
      sessions.spawn(closeSession(std::move(mounted->session), true));
    }
  }
  co_await sessions.close();
}

}  // namespace hearth
