// The leader's side of its followers (R8): copies the volume's log to them, and says when changes
// may be answered and which list of followers the store should have.
//
// Each candidate has a coroutine that asks where the candidate's log ends, sends the records behind
// it, or the checkpoint and the records behind that, and goes on with new records as they become
// durable. On the log's reactor thread; the log outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "volume/follower_list.h"
#include "volume/follower_message.h"
#include "volume/log_reader.h"
#include "volume/volume_control.h"
#include "volume/volume_log.h"

namespace hearth {

class LogFollowers {
 public:
  struct Ports {
    // A control message to that node's agent, and its answer by the deadline.
    std::function<Task<Result<ControlMessage>>(std::string node, ControlMessage request,
                                               Clock::time_point deadline)>
        call;
    // True while the leader's lease runs: nothing is sent without it.
    std::function<bool()> leads;
    std::vector<std::string> listed;  // by the transaction that began the term
  };
  // Of one message to a follower.
  static constexpr Clock::duration kCallTime = std::chrono::seconds(1);
  // After a message of few records others gather for so long; an idle follower is asked again after
  // kIdleTime.
  static constexpr Clock::duration kGatherTime = std::chrono::milliseconds(20);
  static constexpr Clock::duration kIdleTime = std::chrono::seconds(5);
  static constexpr Clock::duration kRetryPause = std::chrono::milliseconds(200);
  // An answer waits so long for the followers.
  static constexpr Clock::duration kAnswerWait = std::chrono::seconds(2);

  // `first`: the record that began the term.
  LogFollowers(Reactor& reactor, const VolumeLog& log, tree::WideId volume, LogPosition first,
               Ports ports);
  LogFollowers(const LogFollowers&) = delete;
  LogFollowers& operator=(const LogFollowers&) = delete;

  // FollowerList's, from the agent's policy.
  void setCandidates(const std::vector<std::string>& nodes);
  void setListed(const std::vector<std::string>& nodes);
  // The list that the store should have, as soon as it is not `known`, or at the deadline.
  [[nodiscard]] Task<std::vector<std::string>> wanted(std::vector<std::string> known,
                                                      Clock::time_point deadline);

  // The log has grown.
  void grew();
  // Until the leader may answer a change, or else a query. kUnavailable: not within kAnswerWait.
  [[nodiscard]] Task<Status> mayAnswer(bool change);
  [[nodiscard]] std::uint64_t committed() const { return list_.committed(); }

  struct Row {
    FollowerList::Row follower;
    std::string error;  // why its log does not grow now
  };
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] std::uint64_t dropped() const { return list_.dropped(); }

  // Until all that may be listed have the whole log, or the deadline. False: one has not.
  [[nodiscard]] Task<bool> drain(Clock::time_point deadline);
  // Sends nothing more, and waits for what is under way. Required before destruction.
  [[nodiscard]] Task<void> close();

 private:
  [[nodiscard]] bool goesOn(const std::string& node) const;
  [[nodiscard]] Task<void> copyTo(std::string node);
  // Until an error, or until the copy has to begin anew.
  [[nodiscard]] Task<Status> copyOnce(const std::string& node);
  [[nodiscard]] Task<Result<bool>> follows(LogReader& reader, const Result<FollowerReply>& state);
  // In the place of the node's log, which ends there.
  [[nodiscard]] Task<Status> install(const std::string& node, LogPosition replaced,
                                     LogReader& reader);
  [[nodiscard]] Task<Status> sendRecords(const std::string& node, LogReader& reader);
  template <class Message>
  [[nodiscard]] Task<Result<FollowerReply>> ask(std::string node, VolumeControl type,
                                                Message message);
  void confirm(const std::string& node, std::uint64_t record);

  Reactor& reactor_;
  const VolumeLog& log_;
  const tree::WideId volume_;
  const std::uint64_t epoch_;
  const Ports ports_;
  FollowerList list_;
  std::map<std::string, std::string> errors_;  // of the nodes that have a coroutine
  bool closed_ = false;
  Event grown_;    // the log
  Event changed_;  // the list's inputs; or it was closed
  Gate copies_;
};

}  // namespace hearth
