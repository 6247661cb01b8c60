#include "volume/leader_client.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "volume/volume_control.h"

namespace hearth {
namespace {

constexpr Clock::duration kLongestPause = std::chrono::milliseconds(250);

// A message and its answer: on the wire, and where this agent leads.
template <class Answer, VolumeControl type, auto ask, auto decode>
struct ExchangeAs {
  using Reply = Answer;
  static constexpr VolumeControl kType = type;
  static constexpr auto kAsk = ask;
  static constexpr auto kDecode = decode;
};

}  // namespace

class LeaderClient::Inside {
 public:
  explicit Inside(LeaderClient& client) : client_(client) {
    ++client_.inside_;
    client_.idle_.reset();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (--client_.inside_ == 0) client_.idle_.set();
  }

 private:
  LeaderClient& client_;
};

template <class Reply>
struct LeaderClient::Asked {
  explicit Asked(Reactor& reactor) : done(reactor) {}
  Event done;
  std::optional<Result<Reply>> reply;
};

template <>
struct LeaderClient::Exchange<JoinMessage>
    : ExchangeAs<ChangeReply, VolumeControl::kJoin, &LeaderService::join, decodeReply> {};
template <>
struct LeaderClient::Exchange<ChangeMessage>
    : ExchangeAs<ChangeReply, VolumeControl::kChange, &LeaderService::change, decodeReply> {};
template <>
struct LeaderClient::Exchange<QueryMessage>
    : ExchangeAs<QueryReply, VolumeControl::kQuery, &LeaderService::query, decodeQueryReply> {};
template <>
struct LeaderClient::Exchange<UpkeepMessage>
    : ExchangeAs<UpkeepReply, VolumeControl::kUpkeep, &LeaderService::upkeep, decodeUpkeepReply> {};

LeaderClient::LeaderClient(Reactor& reactor, PeerTransport& transport, LeaderService& here,
                           Options options)
    : reactor_(reactor),
      transport_(transport),
      here_(here),
      options_(std::move(options)),
      changed_(reactor),
      answered_(reactor),
      idle_(reactor),
      askedHere_(reactor) {
  idle_.set();
}

void LeaderClient::setLeader(std::optional<Leader> leader) {
  if (leader_ == leader) return;
  leader_ = std::move(leader);
  changed_.set();
}

Task<void> LeaderClient::close(std::int32_t error) {
  closed_ = error;
  changed_.set();
  answered_.set();
  co_await idle_.wait();
  co_await askedHere_.close();
}

Task<std::optional<LeaderClient::Leader>> LeaderClient::awaitLeader(const Tries& tries) {
  while (!leader_ && !closed_ && Clock::now() < tries.deadline) {
    changed_.reset();
    co_await changed_.waitUntil(tries.deadline);
  }
  co_return closed_ ? std::nullopt : leader_;
}

Task<bool> LeaderClient::pause(Tries& tries, const Leader& asked) {
  if (!closed_ && leader_ == asked) {
    changed_.reset();
    co_await changed_.waitUntil(std::min(tries.deadline, Clock::now() + tries.pause));
    tries.pause = std::min(2 * tries.pause, kLongestPause);
  }
  co_return !closed_ && Clock::now() < tries.deadline;
}

template <class Message, class Reply>
Task<void> LeaderClient::askHere(LeaderClient& client, Message message,
                                 std::shared_ptr<Asked<Reply>> asked) {
  asked->reply =
      co_await (client.here_.*Exchange<Message>::kAsk)(client.options_.node, std::move(message));
  asked->done.set();
}

template <class Message>
auto LeaderClient::send(const Leader& leader, Message message, const Tries& tries)
    -> Task<Result<typename Exchange<Message>::Reply>> {
  using Reply = typename Exchange<Message>::Reply;
  const Clock::time_point until = std::min(tries.deadline, Clock::now() + kAttempt);
  if (leader.node == options_.node) {
    const auto asked = std::make_shared<Asked<Reply>>(reactor_);
    askedHere_.spawn(askHere<Message, Reply>(*this, std::move(message), asked));
    co_await asked->done.waitUntil(until);
    if (asked->reply) co_return std::move(*asked->reply);
    co_return Error{ErrorCode::kDeadlineExceeded, "the volume's log is not written in time"};
  }
  const auto type = static_cast<std::uint16_t>(Exchange<Message>::kType);
  const Result<ControlMessage> answer = co_await transport_.call(
      leader.node, ControlMessage{type, encode(message)}, RequestTimeouts(until, kSilence));
  if (!answer.ok()) co_return answer.error();
  auto reply = Exchange<Message>::kDecode(answer->body);
  if (reply) co_return std::move(*reply);
  co_return Error{ErrorCode::kProtocolError, "an answer of a volume's leader of the wrong shape"};
}

template <class Message>
auto LeaderClient::ask(Message message) -> Task<std::optional<typename Exchange<Message>::Reply>> {
  Tries tries = this->tries();
  for (;;) {
    const auto leader = co_await awaitLeader(tries);
    if (!leader) co_return std::nullopt;
    message.epoch = leader->epoch;
    auto reply = co_await send(*leader, message, tries);
    if (reply.ok()) co_return std::move(*reply);
    if (const bool again = co_await pause(tries, *leader); !again) co_return std::nullopt;
  }
}

Task<QueryReply> LeaderClient::query(VolumeQuery query) {
  const Inside inside(*this);
  const Clock::time_point begun = Clock::now();
  const std::size_t kind = query.index();
  auto answer = co_await ask(QueryMessage{.volume = options_.volume, .query = std::move(query)});
  QueryReply reply = answer ? std::move(*answer) : QueryReply{.error = lateError()};
  counts_.queries[kind].add(begun, reply.error);
  co_return reply;
}

Task<UpkeepReply> LeaderClient::upkeep(Released released) {
  const Inside inside(*this);
  auto answer =
      co_await ask(UpkeepMessage{.volume = options_.volume, .released = std::move(released)});
  co_return answer ? std::move(*answer) : UpkeepReply{.error = lateError()};
}

Task<std::string> LeaderClient::nodeOf(tree::AgentId agent) {
  if (agent == self_ && agent != tree::kNoAgent) co_return options_.node;
  if (const auto known = nodes_.find(agent); known != nodes_.end()) co_return known->second;
  const QueryReply reply = co_await query(AgentQuery{agent});
  if (reply.error == 0) nodes_[agent] = reply.text;
  co_return reply.text;
}

Task<bool> LeaderClient::join(const Leader& leader, const Tries& tries) {
  const JoinMessage message{options_.volume, options_.incarnation, leader.epoch};
  const auto reply = co_await send(leader, message, tries);
  if (!reply.ok() || reply->answer.error != 0) co_return false;
  self_ = reply->answer.holder.agent;
  joined_ = true;
  co_return true;
}

Task<tree::AgentId> LeaderClient::self() {
  const Inside inside(*this);
  for (Tries tries = this->tries(); !joined_;) {
    const auto leader = co_await awaitLeader(tries);
    if (!leader) co_return self_;
    if (const bool joined = co_await join(*leader, tries); joined) break;
    if (const bool again = co_await pause(tries, *leader); !again) co_return self_;
  }
  co_return self_;
}

Task<ChangeReply> LeaderClient::change(tree::ClientChange change,
                                       std::shared_ptr<RequestNote> note) {
  const Inside inside(*this);
  const Clock::time_point begun = Clock::now();
  ChangeReply reply = co_await numbered(change, std::move(note));
  counts_.changes[change.index()].add(begun, reply.answer.error);
  co_return reply;
}

Task<ChangeReply> LeaderClient::numbered(const tree::ClientChange& change,
                                         std::shared_ptr<RequestNote> note) {
  const Tries tries = this->tries();
  // The leader keeps no more answers than that.
  while (!unanswered_.empty() && last_ + 1 - *unanswered_.begin() >= tree::kMaxKeptResults) {
    answered_.reset();
    const bool inTime = co_await answered_.waitUntil(tries.deadline);
    if (!inTime || closed_) co_return ChangeReply{.answer = {.error = lateError()}};
  }
  const std::uint64_t number = ++last_;
  if (note != nullptr && !note->keep({options_.incarnation, number}))
    co_return ChangeReply{.answer = {.error = ENFILE}};
  unanswered_.insert(number);
  ChangeReply reply = co_await repeat(number, change, tries);
  if (note == nullptr) {
    forget(number);
  } else {
    note->onAnswered([this, number] { forget(number); });
  }
  co_return reply;
}

void LeaderClient::forget(std::uint64_t number) {
  unanswered_.erase(number);
  answered_.set();
}

Task<std::optional<ChangeReply>> LeaderClient::answerTo(AskedChange earlier) {
  const Inside inside(*this);
  Tries tries = this->tries();
  // A start that has joined keeps the ones before it from changing anything more; so the leader
  // looks for an answer, and never executes this.
  const tree::ClientChange none = tree::EndSession{};
  for (;;) {
    const auto leader = co_await awaitLeader(tries);
    if (!leader) break;
    if (joined_ || co_await join(*leader, tries)) {
      const ChangeMessage message{
          options_.volume, earlier.incarnation, leader->epoch, earlier.number, 0, none};
      const auto reply = co_await send(*leader, message, tries);
      const tree::Refusal refusal = reply.ok() ? reply->answer.refusal : tree::Refusal::kNone;
      if (refusal == tree::Refusal::kSuperseded) co_return std::nullopt;
      if (reply.ok() && refusal != tree::Refusal::kNotLeading) co_return *reply;
    }
    if (const bool again = co_await pause(tries, *leader); !again) break;
  }
  co_return ChangeReply{.answer = {.error = lateError()}};
}

Task<ChangeReply> LeaderClient::repeat(std::uint64_t number, const tree::ClientChange& change,
                                       Tries tries) {
  bool mayBeExecuted = false;
  std::int32_t error = 0;
  for (;;) {
    const auto leader = co_await awaitLeader(tries);
    if (!leader) break;
    if (joined_ || co_await join(*leader, tries)) {
      const auto reply =
          co_await send(*leader,
                        ChangeMessage{options_.volume, options_.incarnation, leader->epoch, number,
                                      *unanswered_.begin(), change},
                        tries);
      const tree::Refusal refusal = reply.ok() ? reply->answer.refusal : tree::Refusal::kNone;
      if (!reply.ok()) {
        mayBeExecuted = true;
      } else if (refusal == tree::Refusal::kUnknownClient && !mayBeExecuted) {
        joined_ = false;
      } else if (refusal == tree::Refusal::kLogFails && mayBeExecuted) {
        error = reply->answer.error;
      } else if (refusal != tree::Refusal::kNotLeading && refusal != tree::Refusal::kTooFar) {
        co_return *reply;
      }
    }
    if (const bool again = co_await pause(tries, *leader); !again) break;
  }
  co_return ChangeReply{.answer = {.error = error != 0 && !closed_ ? error : lateError()}};
}

}  // namespace hearth
