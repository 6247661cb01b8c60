// VolumeClient over the transport: sends each call to the agent that leads, this one or another,
// again and again until one answers.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "volume/call_counts.h"
#include "volume/leader_service.h"
#include "volume/volume_client.h"

namespace hearth {

class LeaderClient final : public VolumeClient {
 public:
  struct Options {
    tree::WideId volume{};
    tree::WideId incarnation{};  // of this start of the agent; never used by another one
    std::string node;            // this agent's
    Clock::duration deadline{};  // of every call
  };
  using Leader = LeaderService::Leader;
  // A leader that does not answer for so long is asked again, or the next one is.
  static constexpr Clock::duration kAttempt = std::chrono::seconds(2);
  static constexpr Clock::duration kSilence = std::chrono::seconds(1);

  // `here` answers when this agent leads. All outlive the client.
  LeaderClient(Reactor& reactor, PeerTransport& transport, LeaderService& here, Options options);

  void setDeadline(Clock::duration deadline) { options_.deadline = deadline; }
  // None: calls wait for the next one.
  void setLeader(std::optional<Leader> leader);
  // Calls that wait are sent now: this agent has begun to lead.
  void retry() { changed_.set(); }
  // All calls end with this errno, now and from now on. Required before destruction, before
  // `here` is closed.
  [[nodiscard]] Task<void> close(std::int32_t error);
  [[nodiscard]] const CallCounts& counts() const { return counts_; }

  [[nodiscard]] Task<ChangeReply> change(tree::ClientChange change,
                                         std::shared_ptr<RequestNote> note = nullptr) override;
  [[nodiscard]] Task<std::optional<ChangeReply>> answerTo(AskedChange earlier) override;
  [[nodiscard]] Task<QueryReply> query(VolumeQuery query) override;
  [[nodiscard]] Task<std::string> nodeOf(tree::AgentId agent) override;
  [[nodiscard]] Task<tree::AgentId> self() override;
  [[nodiscard]] Task<UpkeepReply> upkeep(Released released) override;

 private:
  // The tries of one call.
  struct Tries {
    Clock::time_point deadline;
    Clock::duration pause = std::chrono::milliseconds(5);
  };
  // Counts a call that is under way.
  class Inside;
  template <class Reply>
  struct Asked;
  template <class Message>
  struct Exchange;

  [[nodiscard]] Tries tries() const { return {Clock::now() + options_.deadline}; }
  // None: there was none by the deadline, or the client is closed.
  [[nodiscard]] Task<std::optional<Leader>> awaitLeader(const Tries& tries);
  // Until the call should be tried again, or another leader is known. False: its time is over.
  [[nodiscard]] Task<bool> pause(Tries& tries, const Leader& asked);
  // The errno of a call whose time is over.
  [[nodiscard]] std::int32_t lateError() const { return closed_.value_or(ETIMEDOUT); }

  // One try. After an error a change may have been executed or not.
  template <class Message>
  [[nodiscard]] auto send(const Leader& leader, Message message, const Tries& tries)
      -> Task<Result<typename Exchange<Message>::Reply>>;
  template <class Message, class Reply>
  [[nodiscard]] static Task<void> askHere(LeaderClient& client, Message message,
                                          std::shared_ptr<Asked<Reply>> asked);
  // All tries of a call that may be executed more than once. None: its time is over.
  template <class Message>
  [[nodiscard]] auto ask(Message message) -> Task<std::optional<typename Exchange<Message>::Reply>>;
  [[nodiscard]] Task<bool> join(const Leader& leader, const Tries& tries);
  [[nodiscard]] Task<ChangeReply> numbered(const tree::ClientChange& change,
                                           std::shared_ptr<RequestNote> note);
  void forget(std::uint64_t number);
  [[nodiscard]] Task<ChangeReply> repeat(std::uint64_t number, const tree::ClientChange& change,
                                         Tries tries);

  Reactor& reactor_;
  PeerTransport& transport_;
  LeaderService& here_;
  Options options_;
  std::optional<Leader> leader_;
  std::optional<std::int32_t> closed_;
  Event changed_;  // the leader, or the client was closed
  bool joined_ = false;
  tree::AgentId self_ = tree::kNoAgent;
  std::map<tree::AgentId, std::string> nodes_;
  std::uint64_t last_ = 0;  // of the changes' numbers
  std::set<std::uint64_t> unanswered_;
  Event answered_;  // one of them
  CallCounts counts_;
  std::size_t inside_ = 0;
  Event idle_;
  Gate askedHere_;
};

}  // namespace hearth
