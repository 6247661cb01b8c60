// The agent that a request of a link asks next, and the pause before. On the link's thread.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "client/agent_link.h"

namespace hearth::gd2fs {

class AgentLink::Turns {
 public:
  Turns(AgentLink& link, Clock::time_point deadline, bool once)
      : link_(link),
        deadline_(deadline),
        once_(once),
        agents_(link.agentsNow()),
        agent_(link.agents_.preferred.load() % agents_->size()) {}

  [[nodiscard]] const std::string& agent() const { return (*agents_)[agent_].node; }
  [[nodiscard]] RequestTimeouts timeouts() const { return {deadline_, kSilence}; }
  // After a failure: whether to ask again.
  [[nodiscard]] Task<bool> again(Error error) {
    const std::size_t count = agents_->size();
    if (link_.agents_.closing.load() || !maySucceedLater(error.code)) co_return false;
    refused_ = error.code == ErrorCode::kUnauthenticated ? refused_ + 1 : 0;
    ++failures_;
    hasFailed_ = true;
    // A connection whose token has expired is dialled once more, with the token of then.
    if (refused_ > count || (once_ && failures_ >= count)) co_return false;
    agent_ = (agent_ + 1) % count;
    if (failures_ >= count) {
      failures_ = 0;
      link_.agents_.lookAgain();
      agents_ = link_.agentsNow();
      agent_ %= agents_->size();
      co_await link_.reactor().sleep(
          std::min(pause_, std::max(deadline_ - Clock::now(), Clock::duration::zero())));
      pause_ = std::min(pause_ * 2, kLongestPause);
    }
    co_return Clock::now() < deadline_ && !link_.agents_.closing.load();
  }
  // The agent has answered: requests to come begin with it.
  void answered() {
    if (hasFailed_) link_.agents_.preferred = agent_;
  }

  [[nodiscard]] static Error closed() {
    return {ErrorCode::kCancelled, "the context is being closed"};
  }

 private:
  static constexpr Clock::duration kSilence = std::chrono::seconds(5);
  static constexpr Clock::duration kFirstPause = std::chrono::milliseconds(20);
  static constexpr Clock::duration kLongestPause = std::chrono::seconds(1);

  // Of the agent, its connection or its view, so that another try or another agent may answer.
  [[nodiscard]] static bool maySucceedLater(ErrorCode code) {
    switch (code) {
      case ErrorCode::kUnavailable:
      case ErrorCode::kDeadlineExceeded:
      case ErrorCode::kCancelled:
      case ErrorCode::kTryElsewhere:
      case ErrorCode::kCorrupt:
      case ErrorCode::kProtocolError:
      case ErrorCode::kUnauthenticated:
      case ErrorCode::kInternal:
        return true;
      default:
        return false;
    }
  }

  AgentLink& link_;
  const Clock::time_point deadline_;
  const bool once_;
  std::shared_ptr<const AgentList::Agents> agents_;
  std::size_t agent_;
  std::size_t failures_ = 0;  // since all of them were asked
  std::size_t refused_ = 0;   // in a row
  bool hasFailed_ = false;
  Clock::duration pause_ = kFirstPause;
};

}  // namespace hearth::gd2fs
