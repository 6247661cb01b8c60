// Questions of eviction about the copies on other agents. The engine answers them; a cache without
// this port evicts by itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/content_key.h"
#include "reactor/reactor.h"

namespace hearth {

// This agent's knowledge of the copies elsewhere of a file that eviction wants to remove.
enum class CopyVerdict : std::uint8_t {
  kNone,         // there was nothing to ask: it is not wanted, or this agent is alone
  kRedundant,    // others keep what this copy holds
  kLast,         // as far as is known they do not
  kUnconfirmed,  // agents that may keep it did not say so, or not in time
  kUnanswered,   // the agent that would know is away
  kUnsupported,  // it is of a release that says nothing of this
  kUnasked,      // there was no time to ask
};

class ClusterCopies {
 public:
  struct Copy {
    ContentKey key;
    std::uint64_t size = 0;     // of the file
    std::int64_t usedAtMs = 0;  // asked with: the last use in the cluster, as far as is known here
    CopyVerdict verdict = CopyVerdict::kNone;
    std::uint64_t request = 0;  // Answer::request
  };
  struct Answer {
    CopyVerdict verdict = CopyVerdict::kUnanswered;
    std::uint64_t request = 0;  // its number; 0: none was asked
  };
  // An answer is waited for so long at most.
  static constexpr std::chrono::milliseconds kAnswersIn{1500};

  virtual ~ClusterCopies() = default;

  // Any thread. There are other agents that could have copies.
  [[nodiscard]] virtual bool others() const = 0;
  // Any shard; continues on `back`, within kAnswersIn. May these go? A copy that was asked for is
  // counted by no other agent from then on: evicted() or kept() follows for each.
  [[nodiscard]] virtual Task<std::vector<Answer>> ask(std::vector<Copy> copies, Reactor& back) = 0;
  // Any thread. These have gone, whether they were asked for or not; and these stay after all. Said
  // before another copy of the same key can be made here.
  virtual void evicted(std::vector<Copy> copies) = 0;
  virtual void kept(std::vector<Copy> copies) = 0;
};

}  // namespace hearth
