#include "directory/cluster_view.h"

#include "directory/placement.h"

namespace hearth {
namespace {

constexpr std::size_t kDirectoryCandidates = 3;

}  // namespace

ClusterView::ClusterView(std::string self, std::vector<ClusterMember> members)
    : self_(std::move(self)), members_(std::move(members)) {
  for (std::size_t i = 0; i < members_.size(); ++i) positions_[members_[i].identity.node] = i;
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

bool ClusterView::ready(const std::string& node) const {
  const ClusterMember* const member = find(node);
  return member != nullptr && member->ready;
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
  const ClusterMember* const member = find(node);
  return member == nullptr ? std::string() : member->identity.incarnation;
}

unsigned ClusterView::distance(const std::string& a, const std::string& b) const {
  static const ClusterMember kUnknown;
  const ClusterMember* const first = find(a);
  const ClusterMember* const second = find(b);
  const ClusterMember& left = first == nullptr ? kUnknown : *first;
  const ClusterMember& right = second == nullptr ? kUnknown : *second;
  if (left.zone != right.zone) return 2;
  return left.rack.empty() || left.rack != right.rack ? 1 : 0;
}

const ClusterMember* ClusterView::find(const std::string& node) const {
  const auto position = positions_.find(node);
  return position == positions_.end() ? nullptr : &members_[position->second];
}

}  // namespace hearth
