#include "transport/client_shares.h"

namespace hearth {
namespace {

using UnitsByName = std::map<std::string, std::uint64_t>;

std::uint64_t unitsOf(const UnitsByName& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

bool exceeds(std::uint64_t taken, std::uint64_t units, std::uint64_t limit) {
  return taken > limit || units > limit - taken;
}

void giveBackUnits(UnitsByName& counts, const std::string& name, std::uint64_t units) {
  const auto found = counts.find(name);
  found->second -= units;
  if (found->second == 0) counts.erase(found);
}

}  // namespace

ClientShares::Bound ClientShares::bound(const ClientIdentity& client, std::uint64_t units) const {
  const State& state = *state_;
  if (exceeds(unitsOf(state.ofPods, client.pod), units, state.limits.ofPod)) return Bound::kPod;
  if (exceeds(unitsOf(state.ofNamespaces, client.space), units, state.limits.ofNamespace))
    return Bound::kNamespace;
  return exceeds(state.all, units, state.limits.all) ? Bound::kAll : Bound::kNone;
}

ClientShares::Share ClientShares::take(const ClientIdentity& client, std::uint64_t units) {
  if (bound(client, units) != Bound::kNone) return nullptr;
  if (units == 0) return state_;
  State& state = *state_;
  state.all += units;
  state.ofNamespaces[client.space] += units;
  state.ofPods[client.pod] += units;
  const auto leave = [held = state_, client, units](const void*) {
    held->all -= units;
    giveBackUnits(held->ofNamespaces, client.space, units);
    giveBackUnits(held->ofPods, client.pod, units);
  };
  return {state_.get(), leave};
}

std::string holderOf(ClientShares::Bound bound) {
  switch (bound) {
    case ClientShares::Bound::kPod:
      return "this pod has";
    case ClientShares::Bound::kNamespace:
      return "the pods of its namespace have";
    case ClientShares::Bound::kAll:
    case ClientShares::Bound::kNone:
      break;
  }
  return "all clients have";
}

}  // namespace hearth
