// The members of the cluster, as the agent last set them. Immutable: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/content_key.h"
#include "transport/peer_transport.h"

namespace hearth {

struct ClusterMember {
  PeerIdentity identity;
  std::string zone;
  std::string rack;
  bool ready = false;
};

class ClusterView {
 public:
  ClusterView(std::string self, std::vector<ClusterMember> members);

  [[nodiscard]] const std::string& self() const { return self_; }
  [[nodiscard]] const std::vector<ClusterMember>& members() const { return members_; }
  // Everyone else, for the transport.
  [[nodiscard]] std::vector<PeerIdentity> others() const;
  // Names of ready agents without us.
  [[nodiscard]] std::vector<std::string> readyOthers() const;
  // No other agent is ready.
  [[nodiscard]] bool alone() const { return ready_.size() == 1; }
  // It is a member that is ready.
  [[nodiscard]] bool ready(const std::string& node) const;
  // The agents that may be the directory of a key, first choice first: at most three ready ones. We
  // count as ready, so that the list is never empty.
  [[nodiscard]] std::vector<std::string> directoriesOf(const ContentKey& key) const;
  // Incarnation of a member; empty when it is unknown.
  [[nodiscard]] std::string incarnation(const std::string& node) const;
  // 0: in one rack, 1: in one zone, 2: farther. Agents of which neither is known are in one zone; a
  // rack belongs to its zone.
  [[nodiscard]] unsigned distance(const std::string& a, const std::string& b) const;

 private:
  // By name, into members_.
  [[nodiscard]] const ClusterMember* find(const std::string& node) const;

  std::string self_;
  std::vector<ClusterMember> members_;
  std::unordered_map<std::string, std::size_t> positions_;
  std::vector<std::string> ready_;
  std::vector<std::uint64_t> readyHashes_;
};

}  // namespace hearth
