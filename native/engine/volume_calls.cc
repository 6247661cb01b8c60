#include "engine/volume_calls.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/content_key.h"
#include "base/sha256.h"
#include "volume/volume_control.h"
#include "wire/authentication.h"

namespace hearth {
namespace {

std::int64_t bootMs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// Another one at each start, so that numbers of changes begin anew.
tree::WideId newIncarnation() {
  const Nonce nonce = randomNonce();
  tree::WideId id{};
  std::copy_n(nonce.begin(), id.size(), id.begin());
  return id;
}

// Pods of any user write, as into an emptyDir.
constexpr std::uint16_t kRootMode = 0777;

bool isGone(const Shard& shard, const std::string& node) {
  const std::vector<ClusterMember>& members = shard.view->members();
  return !members.empty() && node != shard.view->self() && shard.view->incarnation(node).empty();
}

}  // namespace

std::string hexOf(const tree::WideId& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : id) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Volume::Volume(Shard& owner, VolumeOptions about, LeaderService::Ports ports,
               VolumeLog::Options log, tree::WideId incarnation, std::vector<std::string> folders)
    : shard(owner),
      options(std::move(about)),
      service(std::move(ports), std::move(log)),
      client(*owner.reactor, *owner.transport, service,
             {options.id, incarnation, owner.commons.self, options.deadline}),
      sessions({*owner.reactor, client, *owner.commons.mounting, owner.commons.publishedFiles,
                [&owner](const std::string& node) { return isGone(owner, node); }},
               {.store = options.store,
                .volume = options.id,
                .id = hexOf(options.id),
                .name = options.name,
                .cacheDirectories = std::move(folders),
                .deadline = options.deadline}),
      writes(*owner.reactor, sessions, owner.commons.clientDisk, options.id),
      objects(*owner.reactor, sessions, writes, owner.commons.self) {}

VolumeCalls::VolumeCalls(EngineCommons& commons, Shard& home, std::vector<std::string> folders,
                         std::string tails)
    : commons_(commons),
      home_(home),
      folders_(std::move(folders)),
      tails_(std::move(tails)),
      incarnation_(newIncarnation()) {
  commons_.mounting->volumeFiles = [this](tree::WideId id) { return files(id); };
}

std::shared_ptr<Volume> VolumeCalls::find(const tree::WideId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = volumes_.find(id);
  return found == volumes_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<Volume>> VolumeCalls::findNamed(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  if (!isTold_) return Error{ErrorCode::kUnavailable, "this agent does not know its volumes yet"};
  const auto found = std::ranges::find_if(
      volumes_, [&](const auto& entry) { return entry.second->options.name == name; });
  if (found == volumes_.end()) return Error{ErrorCode::kNotFound, "no volume is named " + name};
  if (!found->second->isOpen)
    return Error{ErrorCode::kUnavailable, "the volume " + name + " is being opened"};
  return found->second;
}

std::vector<std::shared_ptr<Volume>> VolumeCalls::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Volume>> volumes;
  for (const auto& [id, volume] : volumes_) volumes.push_back(volume);
  return volumes;
}

std::shared_ptr<Volume> VolumeCalls::open(VolumeOptions options) {
  Shard& shard = *commons_.shards[options.id[0] % commons_.shards.size()];
  LeaderService::Ports ports{
      .reactor = *shard.reactor,
      .files = *shard.files,
      .background = &commons_.wholeFiles,
      .bootMs = bootMs,
      .isGone = [&shard](const std::string& node) { return isGone(shard, node); },
      .call =
          [&shard](std::string node, ControlMessage request, Clock::time_point deadline) {
            return shard.transport->call(std::move(node), std::move(request), deadline);
          }};
  VolumeLog::Options log{
      .folder = folders_.front() + "/volumes/" + hexOf(options.id) + "/log",
      .tree = {.store = options.store, .volume = options.id, .rootMode = kRootMode},
      .durability = LogDurability::kWritten,
      .background = &commons_.wholeFiles,
      .tail = tailOf(options.id)};
  return std::make_shared<Volume>(shard, std::move(options), std::move(ports), std::move(log),
                                  incarnation_, folders_);
}

std::string VolumeCalls::tailOf(const tree::WideId& id) const {
  if (tails_.empty()) return {};
  const Sha256Digest directory = Sha256::of(std::as_bytes(std::span(folders_.front())));
  return tails_ + "/" + hexOf(id) + "-" + hexOf(directory).substr(0, 16);
}

Task<void> VolumeCalls::openSessions(const std::shared_ptr<Volume>& volume) {
  if (std::exchange(volume->opening, true)) co_return;
  volume->opened = co_await volume->sessions.open();
  volume->isOpen = volume->opened->ok();
  if (volume->opened->ok()) co_return;
  commons_.log(EngineEvent::Level::kError, volume->opened->error().message,
               {{"volume", volume->options.name}});
}

Task<Result<std::shared_ptr<VolumeFiles>>> VolumeCalls::files(tree::WideId id) {
  const std::shared_ptr<Volume> volume = find(id);
  if (volume == nullptr) {
    co_return Error{ErrorCode::kNotFound, "no volume " + hexOf(id) + " is known here"};
  }
  co_await volume->shard.reactor->enter();
  const std::optional<Status> opened = volume->opened;
  co_await home_.reactor->enter();
  if (!opened) {
    co_return Error{ErrorCode::kUnavailable, "the volume " + hexOf(id) + " is being opened"};
  }
  if (!opened->ok()) co_return opened->error();
  co_return std::shared_ptr<VolumeFiles>(volume, &volume->sessions);
}

Task<void> VolumeCalls::set(std::vector<VolumeOptions> volumes) {
  std::vector<std::shared_ptr<Volume>> gone;
  {
    const std::lock_guard lock(mutex_);
    isTold_ = true;
    std::erase_if(volumes_, [&](const auto& entry) {
      const bool named = std::ranges::any_of(
          volumes, [&](const VolumeOptions& options) { return options.id == entry.first; });
      if (!named) gone.push_back(entry.second);
      return !named;
    });
    for (const VolumeOptions& options : volumes) {
      if (!volumes_.contains(options.id)) volumes_.emplace(options.id, open(options));
    }
  }
  for (const std::shared_ptr<Volume>& volume : gone) co_await closeVolume(volume, ENOENT);
  for (const VolumeOptions& options : volumes) {
    const std::shared_ptr<Volume> volume = find(options.id);
    if (volume == nullptr) continue;
    co_await volume->shard.reactor->enter();
    co_await openSessions(volume);
    volume->client.setDeadline(options.deadline);
    volume->sessions.setDeadline(options.deadline);
    volume->service.setLimits(options.limits);
    co_await home_.reactor->enter();
  }
}

Task<void> VolumeCalls::closeVolume(std::shared_ptr<Volume> volume, std::int32_t error) {
  co_await volume->shard.reactor->enter();
  volume->sessions.stop();
  {
    // Writes and sessions wait for the client's calls, and the client for their callers.
    Gate parts(*volume->shard.reactor);
    parts.spawn(volume->writes.close());
    parts.spawn(volume->client.close(error));
    parts.spawn(volume->sessions.close());
    co_await parts.close();
  }
  co_await volume->service.close();
  if (error == ENOENT) volume->sessions.unpin();
  co_await home_.reactor->enter();
}

void VolumeCalls::setLeader(tree::WideId id, std::optional<LeaderClient::Leader> leader) {
  const std::shared_ptr<Volume> volume = find(id);
  if (volume == nullptr) return;
  volume->shard.reactor->post([volume, leader = std::move(leader)] {
    volume->service.setLeader(leader);
    volume->client.setLeader(leader);
  });
}

Task<Status> VolumeCalls::lead(VolumeLease lease) {
  const std::shared_ptr<Volume> volume = find(lease.id);
  if (volume == nullptr) {
    co_return Error{ErrorCode::kNotFound, "no volume " + hexOf(lease.id) + " is known here"};
  }
  co_await volume->shard.reactor->enter();
  Status begun =
      co_await volume->service.lead(lease.epoch, lease.untilBootMs, std::move(lease.followers));
  const Status tail = volume->service.tailError();
  volume->client.retry();
  co_await home_.reactor->enter();
  if (!tail.ok() && !std::exchange(tailsMissed_, true)) {
    commons_.log(
        EngineEvent::Level::kWarn,
        "changes of volumes wait for the file of their log, as it has no tail in memory: " +
            tail.error().message,
        {{"volume", volume->options.name}});
  }
  co_return begun;
}

void VolumeCalls::extendLease(VolumeLease lease) {
  const std::shared_ptr<Volume> volume = find(lease.id);
  if (volume == nullptr) return;
  volume->shard.reactor->post(
      [volume, lease] { volume->service.extend(lease.epoch, lease.untilBootMs); });
}

Task<Status> VolumeCalls::resign(tree::WideId id) {
  const std::shared_ptr<Volume> volume = find(id);
  if (volume == nullptr) co_return Status();
  co_await volume->shard.reactor->enter();
  Status ended = co_await volume->service.resign();
  co_await home_.reactor->enter();
  co_return ended;
}

Task<Status> VolumeCalls::remove(tree::WideId id) {
  if (find(id) != nullptr) {
    co_return Error{ErrorCode::kInUse, "the volume " + hexOf(id) + " is in the list of volumes"};
  }
  std::vector<std::string> paths;
  for (const std::string& folder : folders_) paths.push_back(folder + "/volumes/" + hexOf(id));
  if (!tails_.empty()) paths.push_back(tailOf(id));
  for (const std::string& path : paths) {
    const std::error_code error = co_await home_.reactor->offload(commons_.wholeFiles, [path] {
      std::error_code failed;
      std::filesystem::remove_all(path, failed);
      return failed;
    });
    if (error) co_return errnoError(error.value(), "remove " + path);
  }
  co_return Status();
}

Task<std::vector<VolumeStatistics>> VolumeCalls::statistics() {
  std::vector<VolumeStatistics> result;
  for (const std::shared_ptr<Volume>& volume : all()) {
    co_await volume->shard.reactor->enter();
    const Status error = volume->service.logError();
    VolumeStatistics statistics{.id = volume->options.id,
                                .leads = volume->service.leads(),
                                .epoch = volume->service.epoch(),
                                .error = error.ok() ? std::string() : error.error().message,
                                .usage = volume->service.usage(),
                                .evictions = volume->service.evictions(),
                                .followers = volume->service.followers(),
                                .followersDropped = volume->service.followersDropped()};
    const SessionStatistics sessions = volume->sessions.statistics();
    statistics.sessions = sessions.sessions;
    statistics.sessionBytes = sessions.sessionBytes;
    statistics.overdue = sessions.overdue;
    statistics.unserved = sessions.unserved;
    const CallCounts& counts = volume->client.counts();
    statistics.operations.assign(counts.changes.begin(), counts.changes.end());
    statistics.operations.insert(statistics.operations.end(), counts.queries.begin(),
                                 counts.queries.end());
    result.push_back(std::move(statistics));
  }
  co_await home_.reactor->enter();
  co_return result;
}

Task<void> VolumeCalls::close() {
  std::vector<std::shared_ptr<Volume>> volumes = all();
  {
    const std::lock_guard lock(mutex_);
    volumes_.clear();
  }
  for (std::shared_ptr<Volume>& volume : volumes) {
    co_await closeVolume(std::move(volume), ESHUTDOWN);
  }
}

Task<Result<ControlMessage>> VolumeCalls::onControl(Reactor& answering, std::string fromNode,
                                                    ControlMessage request) {
  const auto id = volumeOf(request.body);
  if (!id) co_return Error{ErrorCode::kProtocolError, "a volume's message without its volume"};
  const std::shared_ptr<Volume> volume = find(*id);
  if (volume == nullptr) {
    co_return Error{ErrorCode::kUnavailable, "the volume " + hexOf(*id) + " is not known here"};
  }
  co_await volume->shard.reactor->enter();
  Result<ControlMessage> answer =
      co_await volume->service.onControl(std::move(fromNode), std::move(request));
  co_await answering.enter();
  co_return answer;
}

}  // namespace hearth
