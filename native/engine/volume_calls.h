// The agent's calls about writable volumes, and those of other agents to a volume's leader. Each
// volume lives on one shard, by its id. Tasks are called and continue on the home shard's thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/client_writes.h"
#include "engine/shard.h"
#include "engine/volume_objects.h"
#include "sessions/volume_sessions.h"
#include "volume/leader_client.h"
#include "volume/leader_service.h"

namespace hearth {

struct VolumeOptions {
  tree::WideId id{};
  tree::WideId store{};  // that has the volume's record
  std::string name;
  Clock::duration deadline{};  // of every operation of a mount
  VolumeLimits limits;
};

struct VolumeLease {
  tree::WideId id{};
  std::uint64_t epoch = 0;
  std::int64_t untilBootMs = 0;        // CLOCK_BOOTTIME
  std::vector<std::string> followers;  // nodes that the store lists, when the term begins
};

struct VolumeFollowers {
  tree::WideId id{};
  std::uint64_t epoch = 0;
  std::vector<std::string> candidates;  // LeaderService::setFollowers
  std::optional<std::vector<std::string>> listed;
};

// The end of a node's log.
struct NodeLogPosition {
  std::string node;
  LogPosition position;
};

struct VolumeStatistics {
  tree::WideId id{};
  bool leads = false;
  std::uint64_t epoch = 0;
  std::string error;                             // why the leader's log cannot be written
  tree::Usage usage{};                           // the leader's
  VolumeLeader::Evictions evictions;             // since its term began
  std::vector<LogFollowers::Row> followers;      // of the leader
  std::uint64_t followersDropped = 0;            // since its term began
  std::uint64_t sessions = 0, sessionBytes = 0;  // session files of this node
  std::uint64_t overdue = 0, unserved = 0;       // of SessionStatistics
  std::vector<CallCount> operations;
};

// 32 hexadecimal digits.
[[nodiscard]] std::string hexOf(const tree::WideId& id);

// One volume on this agent; its parts are used on its shard's thread.
struct Volume {
  Volume(Shard& owner, VolumeOptions about, LeaderService::Ports ports, VolumeLog::Options log,
         tree::WideId incarnation, std::vector<std::string> folders);
  Shard& shard;
  VolumeOptions options;
  LeaderService service;
  LeaderClient client;
  VolumeSessions sessions;
  ClientWrites writes;
  VolumeObjects objects;
  bool opening = false;
  std::optional<Status> opened;      // of `sessions`: why its folders cannot be used
  std::atomic<bool> isOpen = false;  // `opened` is ok; any thread
};

class VolumeCalls {
 public:
  // Both outlive this. `folders`: the cache directories. `tails`: EngineOptions::volumeTails.
  // Mounts get their files here from now on.
  VolumeCalls(EngineCommons& commons, Shard& home, std::vector<std::string> folders,
              std::string tails = {});

  // Opens volumes that are new, and closes those that are left out.
  [[nodiscard]] Task<void> set(std::vector<VolumeOptions> volumes);
  // Any thread. Nothing for a volume that is not known.
  void setLeader(tree::WideId id, std::optional<LeaderClient::Leader> leader);
  // kNotFound: the volume is not known; else errors of LeaderService::lead.
  [[nodiscard]] Task<Status> lead(VolumeLease lease);
  // Any thread.
  void extendLease(VolumeLease lease);
  [[nodiscard]] Task<Status> resign(tree::WideId id);
  // Any thread. Nothing when it is of another term.
  void setFollowers(VolumeFollowers followers);
  // LeaderService::followersWanted; kNotFound: the volume is not known.
  [[nodiscard]] Task<Result<std::vector<std::string>>> followersWanted(
      tree::WideId id, std::uint64_t epoch, std::vector<std::string> known,
      Clock::duration timeout);
  // Where the logs of these nodes end, of those that answer within `timeout`. The nodes take
  // nothing of lower epochs from then on. kNotFound: the volume is not known.
  [[nodiscard]] Task<Result<std::vector<NodeLogPosition>>> logPositions(
      tree::WideId id, std::uint64_t epoch, std::vector<std::string> nodes,
      Clock::duration timeout);
  // Removes the log, its tail and the session files of a volume that is not known any more; kInUse:
  // it is.
  [[nodiscard]] Task<Status> remove(tree::WideId id);
  [[nodiscard]] Task<std::vector<VolumeStatistics>> statistics();
  // Closes all volumes: their mounts are gone.
  [[nodiscard]] Task<void> close();

  // For a mount, whose files they are until close(). kNotFound: the volume is not known; else why
  // its folders cannot be used.
  [[nodiscard]] Task<Result<std::shared_ptr<VolumeFiles>>> files(tree::WideId id);
  // Any thread; null: it is not known.
  [[nodiscard]] std::shared_ptr<Volume> find(const tree::WideId& id) const;
  // For clients; any thread. kNotFound; kUnavailable while its folders are being opened, and before
  // set().
  [[nodiscard]] Result<std::shared_ptr<Volume>> findNamed(const std::string& name) const;
  // A message of another agent, on the thread of `answering`, where it continues.
  [[nodiscard]] Task<Result<ControlMessage>> onControl(Reactor& answering, std::string fromNode,
                                                       ControlMessage request);

 private:
  [[nodiscard]] std::shared_ptr<Volume> open(VolumeOptions options);
  // On the volume's shard. Adds the node's position if it answers.
  [[nodiscard]] static Task<void> askPosition(std::shared_ptr<Volume> volume, std::uint64_t epoch,
                                              std::string node, Clock::time_point deadline,
                                              std::vector<NodeLogPosition>& into);
  // The file, which agents with other cache directories do not use; empty: none.
  [[nodiscard]] std::string tailOf(const tree::WideId& id) const;
  // On the volume's shard.
  [[nodiscard]] Task<void> openSessions(const std::shared_ptr<Volume>& volume);
  [[nodiscard]] Task<void> closeVolume(std::shared_ptr<Volume> volume, std::int32_t error);
  [[nodiscard]] std::vector<std::shared_ptr<Volume>> all() const;

  EngineCommons& commons_;
  Shard& home_;
  const std::vector<std::string> folders_;
  const std::string tails_;
  bool tailsMissed_ = false;  // the log says so
  const tree::WideId incarnation_;
  mutable std::mutex mutex_;  // guards the two
  bool isTold_ = false;       // set() was called
  std::map<tree::WideId, std::shared_ptr<Volume>> volumes_;
};

}  // namespace hearth
