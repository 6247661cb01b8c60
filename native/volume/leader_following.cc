// This agent's part in copying the log: as a follower, and as the leader that has followers.
#include <utility>

#include "volume/leader_service.h"

namespace hearth {
namespace {

Error wrongShape() {
  return {ErrorCode::kProtocolError, "a message to a volume's follower of the wrong shape"};
}

}  // namespace

template <class Message>
Task<Result<FollowerReply>> LeaderService::follow(
    Message message, Task<Result<FollowerReply>> (FollowerLog::*take)(Message)) {
  if (turn_.waiting() >= kMaxFollowing) {
    co_return Error{ErrorCode::kUnavailable, "too many calls wait for the follower's log"};
  }
  co_await turn_.acquire(1);
  Result<FollowerReply> reply =
      Error{ErrorCode::kUnavailable, "this agent leads the volume, or has it closed"};
  if (term_ == nullptr && !closed_) reply = co_await (follower_.*take)(std::move(message));
  turn_.release(1);
  co_return reply;
}

Task<Result<FollowerReply>> LeaderService::logState(LogStateMessage message) {
  co_return co_await follow(message, &FollowerLog::state);
}

template <auto decode, auto take>
Task<Result<ControlMessage>> LeaderService::onFollow(std::string node, ControlMessage request) {
  auto message = decode(request.body);
  if (!message) co_return wrongShape();
  const bool changes = static_cast<VolumeControl>(request.type) != VolumeControl::kLogState;
  if (changes && leader_ != Leader{std::move(node), message->epoch}) {
    co_return Error{ErrorCode::kUnavailable,
                    "the store names another leader of the volume, as far as this agent has seen"};
  }
  const auto reply = co_await follow(std::move(*message), take);
  if (!reply.ok()) co_return reply.error();
  co_return ControlMessage{request.type, encode(*reply)};
}

template Task<Result<ControlMessage>> LeaderService::onFollow<decodeLogState, &FollowerLog::state>(
    std::string node, ControlMessage request);
template Task<Result<ControlMessage>>
LeaderService::onFollow<decodeLogAppend, &FollowerLog::append>(std::string node,
                                                               ControlMessage request);
template Task<Result<ControlMessage>>
LeaderService::onFollow<decodeLogInstall, &FollowerLog::install>(std::string node,
                                                                 ControlMessage request);

void LeaderService::setFollowers(std::uint64_t epoch, const std::vector<std::string>& candidates,
                                 const std::optional<std::vector<std::string>>& listed) {
  if (term_ == nullptr || term_->epoch != epoch) return;
  LogFollowers& followers = term_->leader->followers();
  if (listed) followers.setListed(*listed);
  followers.setCandidates(candidates);
}

Task<Result<std::vector<std::string>>> LeaderService::followersWanted(
    std::uint64_t epoch, std::vector<std::string> known, Clock::time_point deadline) {
  if (term_ == nullptr || term_->epoch != epoch) {
    co_return Error{ErrorCode::kUnavailable, "this agent does not lead the volume in that epoch"};
  }
  // Not a call that the end of the term waits for: it ends with the followers.
  const std::shared_ptr<Term> term = term_;
  co_return co_await term->leader->followers().wanted(std::move(known), deadline);
}

std::vector<LogFollowers::Row> LeaderService::followers() const {
  return term_ == nullptr ? std::vector<LogFollowers::Row>() : term_->leader->followers().rows();
}

std::uint64_t LeaderService::followersDropped() const {
  return term_ == nullptr ? 0 : term_->leader->followers().dropped();
}

}  // namespace hearth
