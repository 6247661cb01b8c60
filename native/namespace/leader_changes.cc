// Changes that the leader itself decides on.
#include <set>

#include "namespace/execution.h"

namespace hearth::tree {

Answer perform(Execution& x, const Join& change) {
  if (change.node.empty() || change.node.size() > kMaxNameBytes) return failed(EINVAL);
  AgentId agent = x.tree.agentOf(change.node);
  if (agent == kNoAgent) {
    const auto& agents = x.tree.agents();
    const auto last = agents.empty() ? 0 : static_cast<std::uint32_t>(agents.rbegin()->first);
    if (last == 0xffffffff) return failed(ENOSPC);
    agent = AgentId{last + 1};
  }
  const ClientId client{agent, change.incarnation};
  if (x.tree.client(client) == nullptr) {
    x.put(Key::of(agent), Agent{change.node, change.incarnation});
    x.put(Key::of(client), Client{});
  }
  return {.holder = client};
}

Answer perform(Execution& x, const Retire& change) {
  const Tree::ClientState* const client = x.tree.client(change.client);
  if (client == nullptr) return failed(ENOENT);
  for (const auto& [number, result] : client->results) {
    x.remove(Key::of(ChangeId{change.client, number}));
  }
  x.remove(Key::of(change.client));
  return {};
}

Answer perform(Execution& x, const Forget& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  if (node->inode.links != 0) return failed(EINVAL);
  const Session* const session = x.tree.session(node->id);
  if (node->content() != nullptr) {
    dropContent(x, *node, session == nullptr ? kNoSession : session->id);
  }
  if (session != nullptr) endSession(x, node->id, *session, kAllChunks, nullptr);
  x.removeInode(node->id);
  return {.removed = node->id};
}

Answer perform(Execution& x, const Evict& change) {
  const Tree::Node* const node = x.tree.find(change.inode);
  if (node == nullptr) return failed(ESTALE);
  if (node->content() == nullptr) return failed(EINVAL);
  const Tree::NamedEntry* const entry = x.tree.soleEntry(*node);
  if (entry == nullptr || x.tree.session(node->id) != nullptr) return failed(EBUSY);
  x.remove(Key::ofEntry(entry->folder, entry->cookie));
  x.dropLink(node->id);
  x.touch(entry->folder);
  return {.removed = node->id};
}

Answer perform(Execution& x, const Collected& change) {
  if (change.ids.size() > kMaxCollected) return failed(EINVAL);
  for (const GarbageId& id : std::set<GarbageId>(change.ids.begin(), change.ids.end())) {
    if (!x.tree.garbage().contains(id)) return failed(ENOENT);
    x.remove(Key::of(id));
  }
  return {};
}

Answer perform(Execution& x, const SetLimits& change) {
  Volume volume = x.tree.volume();
  volume.maxBytes = change.maxBytes;
  volume.maxInodes = change.maxInodes;
  x.put(Key::ofVolume(), volume);
  return {};
}

}  // namespace hearth::tree
