#include "volume/leader_service.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "volume/log_folder.h"
#include "volume/volume_control.h"

namespace hearth {
namespace {

std::int64_t unixNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

Error notLeading() {
  return {ErrorCode::kUnavailable, "this agent does not lead the volume in that epoch"};
}

ChangeReply refused(tree::Refusal refusal) {
  return {.answer = {.error = EIO, .refusal = refusal}};
}

}  // namespace

bool LeaderService::answers(const Term& term) const {
  return !term.resigned && ports_.bootMs() < term.untilBootMs;
}

bool LeaderService::leads() const { return term_ != nullptr && answers(*term_); }

Status LeaderService::logError() const {
  if (term_ == nullptr) return {};
  const Status& sync = term_->leader->log().syncError();
  if (!sync.ok()) return sync;
  const Status write = term_->leader->log().writeError();
  return write.ok() ? term_->leader->checkpointError() : write;
}

Status LeaderService::tailError() const {
  return term_ == nullptr ? Status() : term_->leader->log().tailError();
}

tree::Usage LeaderService::usage() const {
  return term_ == nullptr ? tree::Usage() : term_->leader->executed().usage();
}

VolumeLeader::Evictions LeaderService::evictions() const {
  return term_ == nullptr ? VolumeLeader::Evictions() : term_->leader->evictions();
}

Result<std::shared_ptr<LeaderService::Term>> LeaderService::termOf(std::uint64_t epoch) const {
  if (term_ == nullptr || term_->epoch != epoch || !answers(*term_)) return notLeading();
  if (term_->inside >= kMaxInside) {
    return Error{ErrorCode::kUnavailable, "too many calls wait for the volume's log"};
  }
  return term_;
}

Task<Status> LeaderService::lead(std::uint64_t epoch, std::int64_t untilBootMs,
                                 std::vector<std::string> followers) {
  co_await turn_.acquire(1);
  Status begun = co_await begin(epoch, untilBootMs, std::move(followers));
  turn_.release(1);
  co_return begun;
}

Task<Status> LeaderService::begin(std::uint64_t epoch, std::int64_t untilBootMs,
                                  std::vector<std::string> followers) {
  if (closed_) co_return Error{ErrorCode::kCancelled, "the volume is being closed"};
  if (term_ != nullptr && epoch <= term_->epoch) {
    co_return Error{ErrorCode::kConflict, "this agent leads the volume already, in epoch " +
                                              std::to_string(term_->epoch)};
  }
  if (Status ended = co_await end(); !ended.ok()) co_return ended;
  if (Status closed = co_await follower_.close(); !closed.ok()) co_return closed;
  if (Status made = co_await makeLogFolder(ports_.files, log_.folder); !made.ok()) co_return made;
  const auto term = std::make_shared<Term>(ports_.reactor);
  term->epoch = epoch;
  term->untilBootMs = untilBootMs;
  // An orderly end still copies the log, and answers nobody.
  LogFollowers::Ports ports{.call = ports_.call,
                            .leads =
                                [this, watched = std::weak_ptr(term)] {
                                  const auto alive = watched.lock();
                                  return alive != nullptr && ports_.bootMs() < alive->untilBootMs;
                                },
                            .listed = std::move(followers)};
  auto leader = co_await VolumeLeader::begin(ports_.reactor, ports_.files,
                                             {.log = log_,
                                              .epoch = epoch,
                                              .leads =
                                                  [this, watched = std::weak_ptr(term)] {
                                                    const auto alive = watched.lock();
                                                    return alive != nullptr && answers(*alive);
                                                  },
                                              .now = unixNs,
                                              .followers = std::move(ports)});
  if (!leader.ok()) co_return leader.error();
  term->leader = std::move(*leader);
  term_ = term;
  work_.spawn(applyLimits(term));
  co_return Status();
}

void LeaderService::extend(std::uint64_t epoch, std::int64_t untilBootMs) {
  if (term_ != nullptr && term_->epoch == epoch) term_->untilBootMs = untilBootMs;
}

Task<Status> LeaderService::resign() {
  co_await turn_.acquire(1);
  Status ended = co_await end();
  turn_.release(1);
  co_return ended;
}

Task<Status> LeaderService::end() {
  if (term_ == nullptr) co_return Status();
  const std::shared_ptr<Term> term = std::exchange(term_, nullptr);
  term->resigned = true;
  co_await term->idle.wait();
  co_return co_await term->leader->close();
}

Task<void> LeaderService::close() {
  closed_ = true;
  (void)co_await resign();
  co_await turn_.acquire(1);
  (void)co_await follower_.close();
  turn_.release(1);
  co_await work_.close();
}

void LeaderService::setLimits(VolumeLimits limits) {
  if (limits_ == limits) return;
  limits_ = limits;
  if (term_ != nullptr) work_.spawn(applyLimits(term_));
}

Task<void> LeaderService::applyLimits(std::shared_ptr<Term> term) {
  const Call call(term);
  const tree::Usage usage = call.leader().executed().usage();
  if (VolumeLimits{usage.maxBytes, usage.maxInodes} == limits_) co_return;
  // After an error the next term does it.
  (void)co_await call.leader().decide(tree::SetLimits{limits_.maxBytes, limits_.maxInodes});
}

Task<Result<ChangeReply>> LeaderService::join(std::string node, JoinMessage message) {
  const auto term = termOf(message.epoch);
  if (!term.ok()) co_return term.error();
  const Call call(*term);
  const tree::Tree& tree = call.leader().executed().tree();
  const tree::Agent* const known = tree.agent(tree.agentOf(node));
  const tree::WideId before = known == nullptr ? tree::WideId{} : known->current;
  auto reply = co_await call.leader().decide(tree::Join{std::move(node), message.incarnation});
  if (!reply.ok()) co_return reply.error();
  if (reply->error == 0 && before != message.incarnation) {
    work_.spawn(retireOlder(*term, reply->holder, before));
  }
  co_return ChangeReply{.answer = *reply};
}

// The incarnation before is kept: this one may repeat its requests (R10).
Task<void> LeaderService::retireOlder(std::shared_ptr<Term> term, tree::ClientId joined,
                                      tree::WideId before) {
  const Call call(term);
  std::vector<tree::ClientId> older = call.leader().executed().tree().clientsOf(joined.agent);
  for (const tree::ClientId& client : older) {
    if (client == joined || client.incarnation == before) continue;
    // After an error the next start does it.
    (void)co_await call.leader().decide(tree::Retire{client});
  }
}

void LeaderService::markLapsed(const tree::Namespace& tree, tree::ClientChange& change) const {
  if (const auto* const create = std::get_if<tree::Create>(&change)) {
    const tree::Found found = tree.lookUp(create->place.folder, create->place.name);
    if (!create->opens || create->exclusive || lapsedOf(tree, found.inode) == tree::kNoSession) {
      return;
    }
    // Of a file that is there it is an open.
    change = tree::OpenForWriting{.inode = found.inode, .place = create->place, .writes = false};
  }
  if (auto* const open = std::get_if<tree::OpenForWriting>(&change)) {
    open->lapsed = lapsedOf(tree, open->inode);
  }
}

tree::SessionId LeaderService::lapsedOf(const tree::Namespace& tree, tree::InodeId file) const {
  const tree::Session* const session = tree.session(file);
  const tree::Agent* const holder =
      session == nullptr ? nullptr : tree.tree().agent(session->holder.agent);
  return holder != nullptr && ports_.isGone(holder->node) ? session->id : tree::kNoSession;
}

Task<Result<ChangeReply>> LeaderService::change(std::string node, ChangeMessage message) {
  const auto term = termOf(message.epoch);
  if (!term.ok()) co_return term.error();
  const Call call(*term);
  const tree::Namespace& tree = call.leader().executed();
  const tree::AgentId agent = tree.tree().agentOf(node);
  if (agent == tree::kNoAgent) co_return refused(tree::Refusal::kUnknownClient);
  markLapsed(tree, message.change);
  co_return co_await call.leader().change({.id = {{agent, message.incarnation}, message.number},
                                           .epoch = message.epoch,
                                           .doneBelow = message.doneBelow,
                                           .change = std::move(message.change)});
}

Task<Result<QueryReply>> LeaderService::query(std::string /*node*/, QueryMessage message) {
  const auto term = termOf(message.epoch);
  if (!term.ok()) co_return term.error();
  const Call call(*term);
  auto reply = co_await call.leader().query(
      [&message](const tree::Namespace& tree) { return answerQuery(tree, message.query); });
  const auto* const open = std::get_if<OpenQuery>(&message.query);
  if (open != nullptr && reply.ok() && reply->error == 0) call.leader().used(open->inode);
  co_return reply;
}

namespace {

template <class Body>
ControlMessage encoded(std::uint16_t type, const Body& body) {
  return {type, encode(body)};
}

}  // namespace

Task<Result<ControlMessage>> LeaderService::onControl(std::string node, ControlMessage request) {
  const std::uint16_t type = request.type;
  const auto answered = [type](const auto& reply) -> Result<ControlMessage> {
    if (!reply.ok()) return reply.error();
    return encoded(type, *reply);
  };
  switch (static_cast<VolumeControl>(type)) {
    case VolumeControl::kJoin: {
      auto message = decodeJoin(request.body);
      if (message) co_return answered(co_await join(std::move(node), *message));
      break;
    }
    case VolumeControl::kChange: {
      auto message = decodeChange(request.body);
      if (message) co_return answered(co_await change(std::move(node), std::move(*message)));
      break;
    }
    case VolumeControl::kQuery: {
      auto message = decodeQuery(request.body);
      if (message) co_return answered(co_await query(std::move(node), std::move(*message)));
      break;
    }
    case VolumeControl::kLogState:
      co_return co_await onFollow<decodeLogState, &FollowerLog::state>(std::move(node),
                                                                       std::move(request));
    case VolumeControl::kLogAppend:
      co_return co_await onFollow<decodeLogAppend, &FollowerLog::append>(std::move(node),
                                                                         std::move(request));
    case VolumeControl::kLogInstall:
      co_return co_await onFollow<decodeLogInstall, &FollowerLog::install>(std::move(node),
                                                                           std::move(request));
    case VolumeControl::kUpkeep: {
      auto message = decodeUpkeep(request.body);
      if (message) co_return answered(co_await upkeep(std::move(node), std::move(*message)));
      break;
    }
  }
  co_return Error{ErrorCode::kProtocolError, "a message to a volume's leader of the wrong shape"};
}

}  // namespace hearth
