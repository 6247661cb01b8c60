// The engine when the cluster or its volumes change.
#include "directory/directory_service.h"
#include "engine/engine.h"

namespace hearth {

Task<void> Engine::setCluster(std::vector<ClusterMember> members) {
  const auto view = std::make_shared<const ClusterView>(commons_.self, std::move(members));
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    co_await setView(*shard, view);
  }
  co_await home().enter();
  for (const std::unique_ptr<Listener>& listener : listeners_) listener->setPeers(view->others());
  // After the shards' views, by which a question finds other agents. Uses the shards' present view:
  // another call may have overtaken this one.
  leave_.setOthers(!commons_.shards.front()->view->readyOthers().empty());
}

Task<void> Engine::setRevokedTokens(RevokedTokens tokens) {
  const auto list = std::make_shared<const RevokedTokens>(std::move(tokens));
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    co_await shard->reactor->enter();
    shard->transport->setRevoked(list);
  }
  co_await home().enter();
  if (localServer_ != nullptr) localServer_->setRevoked(list);
}

Task<void> Engine::setVolumes(std::vector<VolumeOptions> volumes) {
  std::vector<tree::WideId> ids;
  for (const VolumeOptions& volume : volumes) ids.push_back(volume.id);
  co_await commons_.volumes->set(std::move(volumes));
  // Not awaited: a session is taken over with the help of the leader, whom the agent names after
  // this.
  commons_.shards.front()->gate->spawn(mounts_->resumeVolumes(std::move(ids)));
}

Task<void> Engine::setView(Shard& shard, std::shared_ptr<const ClusterView> view) {
  co_await shard.reactor->enter();
  for (const ClusterMember& member : shard.view->members()) {
    const std::string& node = member.identity.node;
    if (view->incarnation(node) != member.identity.incarnation) shard.directoryService->gone(node);
  }
  shard.view = view;
  shard.transport->setPeers(view->others());
}

}  // namespace hearth
