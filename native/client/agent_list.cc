#include "client/agent_list.h"

#include <algorithm>
#include <string>
#include <utility>

namespace hearth::gd2fs {
namespace {

std::shared_ptr<const AgentList::Agents> agentsAt(const std::vector<PeerAddress>& addresses) {
  auto agents = std::make_shared<AgentList::Agents>();
  for (const PeerAddress& address : addresses) {
    std::string name = "[" + address.host + "]:" + std::to_string(address.port);
    agents->push_back({std::move(name), {}, {address}});
  }
  return agents;
}

}  // namespace

AgentList::AgentList(const std::vector<PeerAddress>& agents, Find find)
    : find_(std::move(find)), agents_(agentsAt(agents)) {}

std::shared_ptr<const AgentList::Agents> AgentList::now() const {
  const std::lock_guard lock(mutex_);
  return agents_;
}

void AgentList::lookAgain() {
  if (!find_) return;
  const std::vector<PeerAddress> found = find_();
  if (found.empty()) return;
  std::shared_ptr<const Agents> agents = agentsAt(found);
  const std::lock_guard lock(mutex_);
  const auto sameAs = [](const PeerIdentity& a, const PeerIdentity& b) { return a.node == b.node; };
  if (std::ranges::equal(*agents, *agents_, sameAs)) return;
  agents_ = std::move(agents);
  preferred = 0;
}

}  // namespace hearth::gd2fs
