// hearth_gd2fs_agent: one agent of a cluster of processes, for tests that kill them. It serves one
// dataset under the name `llm`, and prints its address once it listens.
//
//   hearth_gd2fs_agent NAME INCARNATION HOST PORT CACHE_FOLDER MANIFEST ORIGIN_FOLDER
//
// PORT 0: any. Each line of the standard input is the cluster from then on: NAME INCARNATION HOST
// PORT of each member, this agent among them. Ends with its standard input.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "engine/testing_cluster.h"

namespace {

using namespace hearth;
using testing_cluster::Agent;

std::shared_ptr<Dataset> addDataset(Agent& agent, const std::string& manifest,
                                    const std::string& folder) {
  std::ifstream file(manifest, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto from = std::as_bytes(std::span(bytes));
  Result<std::shared_ptr<Dataset>> added =
      agent.await(agent.engine().manifests().add({from.begin(), from.end()}));
  if (!added.ok()) {
    std::fprintf(stderr, "%s\n", added.error().message.c_str());
    std::exit(1);
  }
  Location base;
  base.path = base.below = folder;
  (*added)->locations.setBase(std::move(base));
  return *added;
}

std::vector<ClusterMember> membersOf(const std::string& line) {
  std::istringstream words(line);
  std::vector<ClusterMember> members;
  std::string name, incarnation;
  PeerAddress address;
  while (words >> name >> incarnation >> address.host >> address.port)
    members.push_back({{name, incarnation, {address}}, "", "", true});
  return members;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() != 8) return 2;
  Agent agent(
      words[1], 4ull << 30, [](EngineEvent) {}, words[5],
      [&](EngineOptions& options) {
        options.incarnation = words[2];
        options.listen = {{words[3], static_cast<std::uint16_t>(std::stoul(words[4]))}};
      });
  const std::shared_ptr<Dataset> dataset = addDataset(agent, words[6], words[7]);
  agent.engine().nameDatasets({{"llm", dataset}});
  const PeerAddress at = agent.engine().addresses().front();
  std::cout << at.host << " " << at.port << std::endl;
  for (std::string line; std::getline(std::cin, line);) agent.setCluster(membersOf(line));
  return 0;
}
