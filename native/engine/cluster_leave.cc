#include "engine/cluster_leave.h"

namespace hearth {
namespace {

static_assert(ReleaseClient::kTimeout <= ClusterCopies::kAnswersIn);

CopyVerdict verdictOf(ReleaseClient::Answer answer) {
  switch (answer) {
    case ReleaseClient::Answer::kGranted:
      return CopyVerdict::kRedundant;
    case ReleaseClient::Answer::kRefused:
      return CopyVerdict::kLast;
    case ReleaseClient::Answer::kUnconfirmed:
      return CopyVerdict::kUnconfirmed;
    case ReleaseClient::Answer::kUnanswered:
      return CopyVerdict::kUnanswered;
    case ReleaseClient::Answer::kUnsupported:
      break;
  }
  return CopyVerdict::kUnsupported;
}

}  // namespace

Task<std::vector<ClusterCopies::Answer>> ClusterLeave::ask(std::vector<Copy> copies,
                                                           Reactor& back) {
  // One question for each key, all at once: the answer for one file waits for no other.
  std::vector<Answer> answers(copies.size());
  Gate asking(back);
  for (std::size_t i = 0; i < copies.size(); ++i)
    asking.spawn(askOne(commons_.owner(copies[i].key), copies[i], back, answers[i]));
  co_await asking.close();
  co_return answers;
}

Task<void> ClusterLeave::askOne(Shard& owner, Copy copy, Reactor& back, Answer& answer) {
  co_await owner.reactor->enter();
  const ReleaseClient::Asked asked = co_await owner.leave->ask(copy.key, copy.size, copy.usedAtMs);
  co_await back.enter();
  answer = {verdictOf(asked.answer), asked.number};
}

void ClusterLeave::evicted(std::vector<Copy> copies) {
  noteLost(copies);
  onOwners(std::move(copies), [](Shard& owner, const Copy& copy) {
    owner.leave->evicted(copy.key, copy.size, copy.request);
  });
}

void ClusterLeave::kept(std::vector<Copy> copies) {
  onOwners(std::move(copies),
           [](Shard& owner, const Copy& copy) { owner.leave->kept(copy.key, copy.request); });
}

void ClusterLeave::onOwners(std::vector<Copy> copies, void (*report)(Shard&, const Copy&)) {
  std::map<Shard*, std::vector<Copy>> ofShards;
  for (Copy& copy : copies) ofShards[&commons_.owner(copy.key)].push_back(copy);
  for (auto& [owner, ofOne] : ofShards) {
    owner->reactor->post([owner, here = std::move(ofOne), report] {
      for (const Copy& copy : here) report(*owner, copy);
    });
  }
}

void ClusterLeave::start(Reactor& home) {
  home_ = &home;
  line_.emplace(home);
}

void ClusterLeave::stop() {
  if (!line_) return;
  line_.reset();
  writeLine();
}

void ClusterLeave::noteLost(const std::vector<Copy>& copies) {
  const std::lock_guard lock(mutex_);
  for (const Copy& copy : copies) {
    last_ += copy.verdict == CopyVerdict::kLast ? 1 : 0;
    const bool unknown = copy.verdict != CopyVerdict::kLast && copy.verdict != CopyVerdict::kNone &&
                         copy.verdict != CopyVerdict::kRedundant;
    unanswered_ += unknown ? 1 : 0;
  }
  if (last_ + unanswered_ == 0 || std::exchange(posted_, true)) return;
  home_->post([this] { lineDue(); });
}

void ClusterLeave::lineDue() {
  if (!line_) return;
  const Clock::time_point now = Clock::now();
  if (now < nextLine_) return line_->start(nextLine_, [this] { lineDue(); });
  nextLine_ = now + kBetweenLines;
  writeLine();
}

void ClusterLeave::writeLine() {
  std::uint64_t last = 0;
  std::uint64_t unanswered = 0;
  {
    const std::lock_guard lock(mutex_);
    last = std::exchange(last_, 0);
    unanswered = std::exchange(unanswered_, 0);
    posted_ = false;
  }
  if (last + unanswered == 0) return;
  commons_.log(
      EngineEvent::Level::kWarn,
      "files that are wanted were evicted, as there was no other room: " + std::to_string(last) +
          " were the last copy in the cluster, and " + std::to_string(unanswered) +
          " may have been, as the agents that would know did not answer in time; they come from "
          "the origin when they are read again. Give the caches more room");
}

}  // namespace hearth
