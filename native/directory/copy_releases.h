// Leave to evict a copy, given by the directory of its key, on one shard. An agent that has to make
// room asks for leave; the directory gives it while other agents keep the bytes of the copy
// (redundancy.h).
//
// Invariant: of the copies of agents that ask, at least one is never evicted with leave. The
// invariant holds whichever agent is the directory, and while two agents are, because it does not
// rest on the memory of a directory. A directory gives leave only on statements that the other
// agents make about themselves, now: that they hold the bytes in their cache files and have not
// asked for leave either (CopyState). An agent counts itself as asking from before its question
// until its copy is gone, or stays after all. So the last of the agents with leave to begin asking
// had leave for the sake of an agent that began later still, or never asked, and this agent holds
// the bytes.
//
// One exception lets the directory decide between agents that ask at the same time. The directory
// answers the questions for one key one after the other; an agent waiting for this very directory
// counts as one that keeps its copy until its own turn comes. The number of the question decides: a
// late question, whose agent has asked again and was given leave, keeps nothing for others and gets
// no leave.
//
// A reader of the asker may wait, so the answer comes in a bounded time: leave as soon as the
// answers so far suffice, whichever agent is silent, and kUnconfirmed when they do not suffice by
// then.
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

  // `node`, which may be this agent, asks. The service counts a copy that it cannot confirm as
  // absent, and then gives no leave. Answers within kAnswersIn.
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
