// Agents some of which do not reach others. For tests.
#pragma once

#include <algorithm>

#include "engine/testing_cluster.h"
#include "transport/socket.h"

namespace hearth::testing_cluster {

// A port of the loopback without a listener.
inline PeerAddress deafAddress() {
  const SocketAddress any = *socketAddress({"127.0.0.1", 0});
  const Socket bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(bound.fd(), any.get(), any.size), 0);
  return localAddress(bound.fd());
}

// A file whose directory is the first of `directories`, with the next ones as its stand-ins. An
// agent that cannot reach the directory asks a stand-in, which does not hear what others report to
// the directory.
inline std::unique_ptr<Origin> originDirectedBy(const std::vector<Agent*>& agents,
                                                const std::vector<Agent*>& directories,
                                                std::size_t size = 30'000'000) {
  std::vector<ClusterMember> members;
  for (Agent* const agent : agents) members.push_back(agent->member());
  const ClusterView view("", members);
  for (;;) {
    auto origin = std::make_unique<Origin>();
    origin->add("model", size);
    const auto manifest = Manifest::parse(origin->manifest());
    EXPECT_TRUE(manifest.ok());
    const ContentKey key = (*manifest)->entry(filesOf(**manifest).front()).key;
    const std::vector<std::string> order = view.directoriesOf(key);
    if (std::equal(
            directories.begin(), directories.end(), order.begin(),
            [](const Agent* agent, const std::string& name) { return agent->name() == name; })) {
      return origin;
    }
  }
}

// Connects all agents, except that each of `from` finds no listener at the address of `to`; the way
// back is open.
inline void connectExcept(const std::vector<Agent*>& agents, const std::vector<Agent*>& from,
                          const Agent& to) {
  connect(agents);
  std::vector<ClusterMember> members;
  for (Agent* const agent : agents) {
    members.push_back(agent->member());
    if (agent == &to) members.back().identity.addresses = {deafAddress()};
  }
  for (Agent* const agent : from) agent->setCluster(members);
}

}  // namespace hearth::testing_cluster
