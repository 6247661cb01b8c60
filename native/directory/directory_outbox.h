// This agent's reports to the directories on other agents: chunks that it holds, gives up or has
// dropped. One call per agent is under way at a time and carries everything that has come up since
// the call before it: thousands of small files cost as many messages as the other agent has time
// for.
// A shard's; used on its thread.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "directory/directory_message.h"
#include "directory/directory_ports.h"
#include "reactor/synchronization.h"

namespace hearth {

class DirectoryService;

class DirectoryOutbox {
 public:
  // Updates that wait for one agent; beyond it the oldest are left out, which costs a detour.
  static constexpr std::size_t kMaxWaiting = 65'536;

  // `service`: for the keys of which this agent is a directory; must remain live.
  DirectoryOutbox(DirectoryPorts ports, DirectoryService& service)
      : ports_(ports), service_(service) {}

  // Reports to the first of `candidates`, and to the next one when it does not answer. Updates of a
  // key reach an agent in the order of these calls; no caller waits for them.
  void report(std::vector<std::string> candidates, DirectoryUpdate update);

  // Ends when all updates of the key for `node` until now have been delivered, or are left to
  // another candidate: then false, as the agent does not answer now. A look-up must not overtake
  // them: what it is granted would be withdrawn by the older update that the same chunks were given
  // up.
  [[nodiscard]] Task<bool> delivered(std::string node, ContentKey key);

 private:
  struct QueuedUpdate {
    std::vector<std::string> candidates;
    std::size_t at = 0;  // of the candidates, who gets it
    DirectoryUpdate update;
    std::uint64_t number = 0;  // ascending in a queue
  };
  struct Call {
    explicit Call(Reactor& reactor) : ended(reactor) {}
    Event ended;
    std::uint64_t upTo = 0;  // the last update that it carried
    bool failed = false;
  };
  // Lives for as long as its deliver() runs.
  struct NodeQueue {
    explicit NodeQueue(Reactor& reactor) : call(std::make_shared<Call>(reactor)) {}
    std::deque<QueuedUpdate> waiting;
    std::uint64_t done = 0;  // updates up to this number are neither waiting nor under way
    // The newest of each key that are.
    std::unordered_map<ContentKey, std::uint64_t, ContentKeyHash> newest;
    std::shared_ptr<Call> call;  // that is under way, or will be next
    bool batched = true;         // releases before this one know no message with several updates
  };

  void post(QueuedUpdate queued);
  Task<void> deliver(std::string node);
  Task<Status> send(const std::string& node, const std::vector<QueuedUpdate>& batch);
  // The next candidate of each gets it.
  void forward(std::vector<QueuedUpdate> batch);
  // A report that waited for a silent agent reaches another agent late, and perhaps behind newer
  // updates or a look-up. True when the report still says something, changed to the present truth.
  [[nodiscard]] bool stillTrue(DirectoryUpdate& update) const;

  static std::vector<QueuedUpdate> take(NodeQueue& queue);
  static void forget(NodeQueue& queue, const QueuedUpdate& queued);

  DirectoryPorts ports_;
  DirectoryService& service_;
  std::unordered_map<std::string, NodeQueue> queues_;  // by agent
  std::uint64_t lastNumber_ = 0;                       // that were ever posted
};

}  // namespace hearth
