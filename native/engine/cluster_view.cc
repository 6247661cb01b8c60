#include "engine/cluster_view.h"

#include "directory/placement.h"

namespace hearth {
namespace {

constexpr std::size_t kDirectoryCandidates = 3;

}  // namespace

ClusterView::ClusterView(std::string self, std::vector<ClusterMember> members)
    : self_(std::move(self)), members_(std::move(members)) {
  ready_.push_back(self_);
  for (const ClusterMember& member : members_) {
    if (member.ready && member.identity.node != self_) ready_.push_back(member.identity.node);
  }
  for (const std::string& node : ready_) readyHashes_.push_back(nodeHash(node));
}

std::vector<PeerIdentity> ClusterView::others() const {
  std::vector<PeerIdentity> peers;
  for (const ClusterMember& member : members_) {
    if (member.identity.node != self_) peers.push_back(member.identity);
  }
  return peers;
}

std::vector<std::string> ClusterView::readyOthers() const {
  return {ready_.begin() + 1, ready_.end()};
}

std::vector<std::string> ClusterView::directoriesOf(const ContentKey& key) const {
  std::vector<std::string> names;
  for (const std::size_t position :
       rendezvousOrder(key.prefix(), readyHashes_, kDirectoryCandidates)) {
    names.push_back(ready_[position]);
  }
  return names;
}

std::string ClusterView::incarnation(const std::string& node) const {
  for (const ClusterMember& member : members_) {
    if (member.identity.node == node) return member.identity.incarnation;
  }
  return {};
}

}  // namespace hearth
