#include "engine/client_transit.h"

#include <algorithm>

namespace hearth {

Task<ClientTransit::Pass> ClientTransit::enter(ClientIdentity client, std::uint64_t bytes) {
  const std::shared_ptr<State> state = state_;
  bytes = std::min(bytes, state->shares.limits().ofPod);
  if (state->pods.empty()) {
    if (ClientShares::Share share = state->shares.take(client, bytes))
      co_return passOf(state, std::move(share));
  }
  Waiter waiter(state->reactor, bytes);
  ++state->waiting;
  const auto [known, added] = state->byName.try_emplace(client.pod);
  if (added) known->second = state->pods.emplace(state->pods.end(), std::move(client));
  known->second->waiters.push_back(&waiter);
  admit(*state);
  if (!waiter.share) ++state->waited;
  co_await waiter.entered.wait();
  co_return passOf(state, std::move(waiter.share));
}

// Gives each pod that waits its turn, one read at a time, until the first that waits for the room
// of all: those behind it do not overtake, lest a large read never has its turn.
void ClientTransit::admit(State& state) {
  for (std::size_t passedOver = 0; passedOver < state.pods.size();) {
    Pod& pod = state.pods.front();
    Waiter& waiter = *pod.waiters.front();
    const ClientShares::Bound bound = state.shares.bound(pod.client, waiter.bytes);
    if (bound == ClientShares::Bound::kAll) return;
    if (bound == ClientShares::Bound::kNone) {
      waiter.share = state.shares.take(pod.client, waiter.bytes);
      waiter.entered.set();
      pod.waiters.pop_front();
      --state.waiting;
      passedOver = 0;
      if (pod.waiters.empty()) {
        state.byName.erase(pod.client.pod);
        state.pods.pop_front();
        continue;
      }
    } else {
      ++passedOver;
    }
    state.pods.splice(state.pods.end(), state.pods, state.pods.begin());
  }
}

ClientTransit::Pass ClientTransit::passOf(const std::shared_ptr<State>& state,
                                          ClientShares::Share share) {
  const auto leave = [state, share = std::move(share)](const void*) mutable {
    share.reset();
    admit(*state);
  };
  return {state.get(), leave};
}

ClientUse ClientTransit::use() const {
  return {state_->shares.limits().all, state_->shares.taken(), state_->waiting, state_->waited};
}

}  // namespace hearth
