// Leave to evict a copy, given by the directory of its key, on one shard. Who has to make room asks
// for it; it is given while other agents keep what the copy holds (redundancy.h).
//
// What must stay true: of the copies of agents that ask, one is never evicted with leave. It holds
// whoever is the directory, and when there are two of them for a while, because it does not rest on
// what a directory remembers. Leave is given only on what the others say themselves, now: that they
// hold the bytes in their cache files, and have not asked for leave either (CopyState). An agent
// says of itself that it has asked from before it asks until its copy has gone, or stays after all.
// So of those that were given leave the one that began to ask last had it for the sake of one that
// began to ask later still, or never did, and that one holds it.
//
// One exception makes it decide between those that ask at the same time: who waits for this very
// directory, which answers those that ask for a key one after the other, counts as one that stays
// until its own turn comes. It goes by the number of the question: one that comes late, when its
// agent has asked again and was given leave, keeps nothing for others and gets no leave.
//
// The asker's reader may wait, so there is an answer in a bounded time: leave as soon as what was
// said is enough for it, whoever has not answered, and kUnconfirmed when it is not by then.
//
// The agent for whose sake leave is given hears how long the asker takes the file for wanted, so it
// does not take the same file for one that may go without a question.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "directory/directory_message.h"
#include "directory/directory_ports.h"
#include "directory/redundancy.h"

namespace hearth {

class DirectoryService;

class CopyReleases {
 public:
  // Others whose copies are looked at for one question.
  static constexpr std::size_t kMaxOthers = 8;
  // There is an answer in this time: it includes the wait for those who asked before,
  static constexpr std::chrono::milliseconds kAnswersIn{1200};
  // at most so much for the directory of the key to be made, which may have to do with what has
  // been said by then, and the confirmations.
  static constexpr std::chrono::milliseconds kBuildFor{500};

  // `service`: knows who is to be asked; must remain live, as what `ports` refers to.
  CopyReleases(DirectoryPorts ports, DirectoryService& service)
      : ports_(ports), service_(service) {}

  // `node` asks (or we ourselves). What it knows of others and cannot confirm is as if it was not
  // there: then no leave is given. Answers within kAnswersIn.
  [[nodiscard]] Task<ReleaseAnswer> release(std::string node, DirectoryRequest request);

 private:
  struct Pending;
  struct Inquiry;
  struct Asked {
    explicit Asked(Reactor& reactor) : turn(reactor, 1) {}
    Semaphore turn;
    // The questions whose turn has not ended: who asks, and their numbers. None of them has leave.
    std::multiset<std::pair<std::string, std::uint64_t>> waiting;
  };
  struct Part {
    std::string node;
    std::optional<AgentReport> report;
  };

  // When its turn comes: unless nothing waits for the answer any more.
  Task<void> settle(std::shared_ptr<Pending> pending);
  [[nodiscard]] Task<ReleaseAnswer> decide(const Asked& asked, const Pending& pending);
  // Nothing while what is still to be said may change it.
  [[nodiscard]] std::optional<ReleaseAnswer> answerOf(const Asked& asked, const Pending& pending,
                                                      const Inquiry& inquiry) const;
  Task<void> ask(std::shared_ptr<Inquiry> inquiry, std::size_t part, DirectoryRequest request,
                 Clock::time_point until);
  [[nodiscard]] bool stays(const Asked& asked, const Part& other) const;

  DirectoryPorts ports_;
  DirectoryService& service_;
  std::unordered_map<ContentKey, std::shared_ptr<Asked>, ContentKeyHash> asked_;
};

}  // namespace hearth
