// The mounts that the holder owns, the memory that it keeps, and which agent they are of. One
// thread. Targets are canonical paths.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/child_call.h"
#include "holder/former_agents.h"
#include "holder/held_memory.h"
#include "holder/holder_protocol.h"
#include "holder/unserved_requests.h"

namespace hearth {

// Identifies a connection to the holder; never used twice.
using HolderConnection = std::uint64_t;

class HeldMounts {
 public:
  using Time = Clock::time_point;

  struct Mount {
    HolderRecord record;  // without `attached` and `absentSeconds`, which belong to the owner
    OwnedFd device;
    OwnedFd shared;
    std::optional<UnservedRequests> unserved = {};  // of a writable mount
  };

  // `agentAbsence`: how long requests may wait for an owner without an agent before they are
  // aborted. `callDeadline`: of a call that may hang. `touchBytes`: of memory that is touched here.
  HeldMounts(std::chrono::seconds agentAbsence, std::chrono::milliseconds callDeadline,
             std::uint64_t touchBytes)
      : agentAbsence_(agentAbsence), memory_(touchBytes), calls_(callDeadline) {}

  // Makes `connection` the agent of `owner` and raises the epochs of its mounts, unless the agent
  // `continues`; the number of mounts. `who` names the agent in the error that a second one gets;
  // `process` is its process, or none when that is not known.
  [[nodiscard]] Result<std::uint32_t> attach(const std::string& owner, HolderConnection connection,
                                             const std::string& who, bool continues,
                                             OwnedFd process);
  // The connection has been closed: its owner has no agent since `now`.
  void detach(HolderConnection connection, Time now);
  // The owner that `connection` is the agent of, or kInvalidArgument.
  [[nodiscard]] Result<std::string> ownerOf(HolderConnection connection) const;

  // The first mount after `target` (of `owner`, unless that is empty) or nullptr.
  [[nodiscard]] const Mount* next(const std::string& target, const std::string& owner) const;
  // Mounts, or answers the mount that the same request made before.
  [[nodiscard]] Result<const Mount*> mount(const std::string& owner, const HolderRequest& request);
  // Keeps a mount that another holder made and `owner`'s agent serves; one that is here already
  // stays. kNotFound when it is not in the kernel's table.
  [[nodiscard]] Result<const Mount*> enroll(const std::string& owner, const HolderRequest& request,
                                            std::vector<OwnedFd> descriptors);
  // The owner's mount, or kNotFound.
  [[nodiscard]] Result<const Mount*> mountOf(const std::string& owner,
                                             const std::string& target) const;
  [[nodiscard]] bool has(const std::string& target) const { return mounts_.contains(target); }
  // It is held, and the kernel has it no more.
  [[nodiscard]] bool hasGone(const std::string& target) const;
  [[nodiscard]] Status saveState(const std::string& owner, const std::string& target,
                                 const std::string& state);
  [[nodiscard]] Status unmount(const std::string& target, bool force);
  [[nodiscard]] Status dropMemory(const std::string& owner, const std::string& name);
  // Begins to touch memory of the owner that `connection` is the agent of; to be finished by
  // finishTouch(). A file of a folder came in `descriptors`.
  [[nodiscard]] Result<ChildCalls::Running> beginTouch(HolderConnection connection,
                                                       const HolderRequest& request,
                                                       const std::vector<OwnedFd>& descriptors);

  // The holder's description of a mount.
  [[nodiscard]] HolderRecord describe(const Mount& mount, Time now) const;
  [[nodiscard]] HolderMemory describe(const HeldMemory::Kept& kept, Time now) const;
  // Aborts the connections whose owner has had no agent for too long, and drops its memory. Returns
  // a line for the log for each.
  [[nodiscard]] std::vector<std::string> abortAbsent(Time now);
  // When abortAbsent() has something to do; Time::max() when nothing is waiting.
  [[nodiscard]] Time nextAbort() const;
  // Answers the requests of mounts that no agent has served for their deadline. Returns a line for
  // the log for each mount where that begins or ends.
  [[nodiscard]] std::vector<std::string> endUnserved(Time now);
  // When endUnserved() has to look again; Time::max(): never.
  [[nodiscard]] Time nextUnserved(Time now) const;
  // /dev/fuse of mounts whose requests endUnserved() answers as they come.
  [[nodiscard]] std::vector<int> unservedDevices() const;
  // Some owner has an agent, which can give its mounts to the next holder.
  [[nodiscard]] bool anyAttached() const;
  // Detaches every mount that no agent serves. Returns what went wrong.
  [[nodiscard]] std::vector<std::string> unmountUnserved();

  // For the holder that follows: the mount at `position`, or nullptr; what it makes of that; and
  // the end, after which nothing is here any more.
  [[nodiscard]] const Mount* at(std::size_t position) const;
  void adopt(Mount mount, Time absentSince);
  void adopt(HeldMemory::Kept kept, Time absentSince);
  void forgetAll();

  [[nodiscard]] HeldMemory& memory() { return memory_; }
  [[nodiscard]] const HeldMemory& memory() const { return memory_; }
  [[nodiscard]] std::size_t size() const { return mounts_.size(); }
  [[nodiscard]] ChildCalls& calls() { return calls_; }

 private:
  struct Owner {
    HolderConnection agent = 0;  // 0: none
    std::string who;
    Time absentSince;
    FormerAgents former = {};
  };

  // Keeps the mount, and watches whether it is served.
  const Mount* keep(Mount mount);
  [[nodiscard]] static bool stillMounted(const Mount& mount);
  void forgetUnmounted(const std::string& owner);
  [[nodiscard]] bool owns(const std::string& owner) const;
  [[nodiscard]] std::uint32_t absence(const std::string& owner, Time now) const;

  std::chrono::seconds agentAbsence_;
  std::map<std::string, Mount> mounts_;  // by canonical target
  std::map<std::string, Owner> owners_;  // of each mount, memory and attached connection
  HeldMemory memory_;
  ChildCalls calls_;
};

}  // namespace hearth
