// The leader's side of one volume on this agent: begins and ends terms, and answers agents, this
// one among them, while its lease runs. On the volume's reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "volume/change_message.h"
#include "volume/follower_log.h"
#include "volume/query_message.h"
#include "volume/upkeep_message.h"
#include "volume/volume_leader.h"

namespace hearth {

struct VolumeLimits {
  std::uint64_t maxBytes = 0;  // of published files; 0: no limit
  std::uint64_t maxInodes = 0;
  bool operator==(const VolumeLimits&) const = default;
};

class LeaderService {
 public:
  struct Ports {
    Reactor& reactor;
    FileSystem& files;
    ThreadPool* background = nullptr;      // VolumeLog::Options
    std::function<std::int64_t()> bootMs;  // CLOCK_BOOTTIME
    // True: the store has no lease of that node's agent any more. False where that is not known.
    std::function<bool(const std::string& node)> isGone;
    // Sends to followers: LogFollowers::Ports.
    std::function<Task<Result<ControlMessage>>(std::string node, ControlMessage request,
                                               Clock::time_point deadline)>
        call;
  };
  struct Leader {
    std::string node;
    std::uint64_t epoch = 0;
    bool operator==(const Leader&) const = default;
  };
  // Calls that wait for the log at a time; others are answered kUnavailable.
  static constexpr std::size_t kMaxInside = 8192;
  // Calls of the same kind to this agent as a follower: its leader sends one at a time.
  static constexpr std::size_t kMaxFollowing = 8;

  // Ports outlive the service. `log.folder` is made when a term begins, with its parent.
  LeaderService(Ports ports, VolumeLog::Options log)
      : ports_(std::move(ports)),
        log_(std::move(log)),
        follower_(ports_.reactor, ports_.files, log_),
        turn_(ports_.reactor, 1),
        work_(ports_.reactor) {}
  LeaderService(const LeaderService&) = delete;
  LeaderService& operator=(const LeaderService&) = delete;

  // Ends an earlier term, recovers the log and begins a term, which answers until `untilBootMs`.
  // `followers`: the nodes that the store lists. Errors of VolumeLeader::begin; kConflict for an
  // epoch that is not higher.
  [[nodiscard]] Task<Status> lead(std::uint64_t epoch, std::int64_t untilBootMs,
                                  std::vector<std::string> followers = {});
  // The lease of that term was renewed. Nothing when it is another's.
  void extend(std::uint64_t epoch, std::int64_t untilBootMs);
  // Answers nothing more; waits for what is under way, and syncs the log.
  [[nodiscard]] Task<Status> resign();
  // Resigns for good: before it goes.
  [[nodiscard]] Task<void> close();
  void setLimits(VolumeLimits limits);

  // As the store has it: a follower takes records from this leader alone.
  void setLeader(std::optional<Leader> leader) { leader_ = std::move(leader); }
  // Where this agent's log ends. kUnavailable: it leads, or is beginning or ending a term.
  [[nodiscard]] Task<Result<FollowerReply>> logState(LogStateMessage message);
  // Of the term with that epoch: LogFollowers::setCandidates, and setListed with a list.
  void setFollowers(std::uint64_t epoch, const std::vector<std::string>& candidates,
                    const std::optional<std::vector<std::string>>& listed = std::nullopt);
  // LogFollowers::wanted; kUnavailable: there is no such term, or not any more.
  [[nodiscard]] Task<Result<std::vector<std::string>>> followersWanted(
      std::uint64_t epoch, std::vector<std::string> known, Clock::time_point deadline);
  // While it has a term.
  [[nodiscard]] std::vector<LogFollowers::Row> followers() const;
  [[nodiscard]] std::uint64_t followersDropped() const;

  [[nodiscard]] bool leads() const;
  // 0: it leads in no epoch.
  [[nodiscard]] std::uint64_t epoch() const { return term_ == nullptr ? 0 : term_->epoch; }
  // Why the log of the present term cannot be written, or has no checkpoint.
  [[nodiscard]] Status logError() const;
  // Why the log of the present term has no tail although its options name one.
  [[nodiscard]] Status tailError() const;
  // While it has a term.
  [[nodiscard]] tree::Usage usage() const;
  [[nodiscard]] VolumeLeader::Evictions evictions() const;

  // `node`: the agent that asks, as its connection has proved. kUnavailable: this agent does not
  // lead in that epoch, now or any more. After other errors a change may have been executed
  // (VolumeLeader).
  [[nodiscard]] Task<Result<ChangeReply>> join(std::string node, JoinMessage message);
  [[nodiscard]] Task<Result<ChangeReply>> change(std::string node, ChangeMessage message);
  [[nodiscard]] Task<Result<QueryReply>> query(std::string node, QueryMessage message);
  [[nodiscard]] Task<Result<UpkeepReply>> upkeep(std::string node, UpkeepMessage message);
  // One of these from the wire: kProtocolError when it is none.
  [[nodiscard]] Task<Result<ControlMessage>> onControl(std::string node, ControlMessage request);

 private:
  struct Term {
    explicit Term(Reactor& reactor) : idle(reactor) { idle.set(); }
    std::uint64_t epoch = 0;
    std::int64_t untilBootMs = 0;
    bool resigned = false;
    std::unique_ptr<VolumeLeader> leader;
    std::size_t inside = 0;
    Event idle;  // nobody is inside
    // As agents have said in upkeep.
    std::map<tree::InodeId, std::set<tree::AgentId>> unused;
    std::map<tree::GarbageId, std::set<tree::AgentId>> unread, collected;
  };
  // A call that uses a term, which does not end meanwhile.
  class Call {
   public:
    explicit Call(std::shared_ptr<Term> term) : term_(std::move(term)) {
      ++term_->inside;
      term_->idle.reset();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      if (--term_->inside == 0) term_->idle.set();
    }
    [[nodiscard]] Term& term() const { return *term_; }
    [[nodiscard]] VolumeLeader& leader() const { return *term_->leader; }

   private:
    const std::shared_ptr<Term> term_;
  };

  [[nodiscard]] Result<std::shared_ptr<Term>> termOf(std::uint64_t epoch) const;
  [[nodiscard]] bool answers(const Term& term) const;
  [[nodiscard]] Task<Status> begin(std::uint64_t epoch, std::int64_t untilBootMs,
                                   std::vector<std::string> followers);
  [[nodiscard]] Task<Status> end();
  // A message to this agent as a follower.
  template <class Message>
  [[nodiscard]] Task<Result<FollowerReply>> follow(
      Message message, Task<Result<FollowerReply>> (FollowerLog::*take)(Message));
  // The same from another agent's message, which is the leader's if it changes the log.
  template <auto decode, auto take>
  [[nodiscard]] Task<Result<ControlMessage>> onFollow(std::string node, ControlMessage request);
  // Names in the open the session that may be taken, if its holder is gone (R1).
  void markLapsed(const tree::Namespace& tree, tree::ClientChange& change) const;
  // The file's session, if its holder is gone.
  [[nodiscard]] tree::SessionId lapsedOf(const tree::Namespace& tree, tree::InodeId file) const;
  [[nodiscard]] Task<void> retireOlder(std::shared_ptr<Term> term, tree::ClientId joined,
                                       tree::WideId before);
  [[nodiscard]] Task<void> applyLimits(std::shared_ptr<Term> term);
  // leader_upkeep.cc
  [[nodiscard]] Task<Status> forgetUnused(Term& term, std::vector<tree::InodeId> unused,
                                          tree::AgentId by);
  [[nodiscard]] Task<Status> forgetCollected(Term& term, std::vector<tree::GarbageId> collected,
                                             tree::AgentId by);
  [[nodiscard]] UpkeepReply askFor(const Term& term, tree::AgentId agent) const;
  // Every agent that has joined and is still there is in the set.
  [[nodiscard]] bool haveAllSaid(const tree::Tree& tree, const std::set<tree::AgentId>& said) const;
  [[nodiscard]] bool mayGo(const Term& term, const tree::GarbageId& id,
                           const tree::Garbage& garbage) const;

  const Ports ports_;
  const VolumeLog::Options log_;
  VolumeLimits limits_;
  std::optional<Leader> leader_;
  std::shared_ptr<Term> term_;
  FollowerLog follower_;  // while there is no term
  Semaphore turn_;        // of what begins and ends terms
  bool closed_ = false;
  Gate work_;
};

}  // namespace hearth
