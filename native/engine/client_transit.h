// Bounds the bytes on their way to the clients of one shard, from before they are looked for until
// they are sent: however many clients ask, and however slowly they take their answers, mounts and
// peers keep the rest of the node's memory, and each pod and namespace leaves room for the others.
// On the shard's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "reactor/synchronization.h"
#include "reactor/task.h"
#include "transport/client_shares.h"

namespace hearth {

// Use by the clients of one shard, or of all.
struct ClientUse {
  std::uint64_t limitBytes = 0, bytes = 0;  // allowed, and on their way
  std::uint64_t waiting = 0;                // reads, now
  std::uint64_t waited = 0;                 // reads, since the start
  void add(const ClientUse& other) {
    limitBytes += other.limitBytes;
    bytes += other.bytes;
    waiting += other.waiting;
    waited += other.waited;
  }
};

class ClientTransit {
 public:
  // Gives its bytes back when the last copy goes; may outlive the ClientTransit.
  using Pass = std::shared_ptr<const void>;

  // `reactor` must remain live until no pass is waited for.
  ClientTransit(Reactor& reactor, std::uint64_t limitBytes)
      : state_(std::make_shared<State>(reactor, limitBytes)) {}

  // Reads of one pod in their order; pods that wait take turns. A caller that asks for more than a
  // pod may have waits until nothing else of its pod is on its way.
  [[nodiscard]] Task<Pass> enter(ClientIdentity client, std::uint64_t bytes);
  [[nodiscard]] ClientUse use() const;

 private:
  struct Waiter {
    Waiter(Reactor& reactor, std::uint64_t wanted) : bytes(wanted), entered(reactor) {}
    const std::uint64_t bytes;
    ClientShares::Share share;
    Event entered;
  };
  struct Pod {
    explicit Pod(ClientIdentity who) : client(std::move(who)) {}
    const ClientIdentity client;
    std::deque<Waiter*> waiters;  // never empty
  };
  struct State {
    State(Reactor& used, std::uint64_t bytes)
        : reactor(used), shares(ClientLimits::shared(bytes)) {}
    Reactor& reactor;
    ClientShares shares;
    std::list<Pod> pods;  // that wait; the next turn is the first one's
    std::map<std::string, std::list<Pod>::iterator> byName;
    std::uint64_t waiting = 0, waited = 0;
  };
  static void admit(State& state);
  static Pass passOf(const std::shared_ptr<State>& state, ClientShares::Share share);

  const std::shared_ptr<State> state_;
};

}  // namespace hearth
