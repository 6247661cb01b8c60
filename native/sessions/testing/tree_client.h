// A volume's leader in the same process, without a log or a network: the tree and its clients. For
// tests.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "namespace/testing/led_namespace.h"
#include "volume/volume_client.h"

namespace hearth::testing_support {

// The tree of all clients. Any thread.
struct SharedTree {
  std::mutex mutex;
  tree::LedNamespace led;
  bool away = false;                                        // no leader answers
  std::map<tree::InodeId, std::set<tree::AgentId>> unused;  // orphans, and the agents that said so
  std::map<tree::GarbageId, std::set<tree::AgentId>> unread;  // garbage
};

class TreeClient final : public VolumeClient {
 public:
  TreeClient(SharedTree& tree, const std::string& node, std::uint8_t incarnation = 1)
      : tree_(tree) {
    const std::lock_guard lock(tree_.mutex);
    client_ = tree_.led.join(node, incarnation);
  }

  Task<ChangeReply> change(tree::ClientChange change,
                           std::shared_ptr<RequestNote> note = nullptr) override {
    const std::lock_guard lock(tree_.mutex);
    ChangeReply reply;
    if (tree_.away) {
      reply.answer.error = ETIMEDOUT;
      co_return reply;
    }
    ++changes;
    tree::Request request = tree_.led.request(client_, std::move(change));
    if (note == nullptr) request.doneBelow = request.id.number;
    if (note != nullptr) EXPECT_TRUE(note->keep({client_.incarnation, request.id.number}));
    reply.answer = tree_.led.execute(std::move(request));
    if (reply.answer.inode != tree::kNoInode)
      reply.attributes = tree_.led.tree.attributes(reply.answer.inode);
    co_return reply;
  }
  Task<std::optional<ChangeReply>> answerTo(AskedChange earlier) override {
    const std::lock_guard lock(tree_.mutex);
    tree::Request request = tree_.led.request({client_.agent, earlier.incarnation}, {});
    request.id.number = earlier.number;
    const tree::Answer answer = tree_.led.execute(std::move(request));
    if (answer.refusal == tree::Refusal::kSuperseded) co_return std::nullopt;
    co_return ChangeReply{.answer = answer};
  }
  Task<QueryReply> query(VolumeQuery query) override {
    const std::lock_guard lock(tree_.mutex);
    if (tree_.away) co_return QueryReply{.error = ETIMEDOUT};
    co_return answerQuery(tree_.led.tree, query);
  }
  Task<std::string> nodeOf(tree::AgentId agent) override {
    const std::lock_guard lock(tree_.mutex);
    const tree::Agent* const known = tree_.led.tree.tree().agent(agent);
    co_return known == nullptr ? std::string() : known->node;
  }
  Task<tree::AgentId> self() override { co_return client_.agent; }
  // An orphan goes when all agents have said that it is unused.
  // Garbage may go when they have said that it is unread.
  Task<UpkeepReply> upkeep(Released released) override {
    const std::lock_guard lock(tree_.mutex);
    UpkeepReply reply;
    const std::size_t all = tree_.led.tree.tree().agents().size();
    for (const tree::InodeId inode : released.unused) {
      std::set<tree::AgentId>& agents = tree_.unused[inode];
      agents.insert(client_.agent);
      if (agents.size() == all) (void)tree_.led.decide(tree::Forget{inode});
    }
    for (const tree::GarbageId& id : released.unread) tree_.unread[id].insert(client_.agent);
    if (!released.collected.empty())
      (void)tree_.led.decide(tree::Collected{std::move(released.collected)});
    for (const auto& [id, garbage] : tree_.led.tree.tree().garbage()) {
      const std::set<tree::AgentId>& said = tree_.unread[id];
      const bool mayGo = said.size() == all;
      const bool mine = garbage.runs.front().holder == client_.agent;
      if (mayGo ? mine : !said.contains(client_.agent))
        reply.garbage.push_back({id, mayGo, garbage});
    }
    for (const tree::InodeId inode : tree_.led.tree.tree().orphans()) {
      if (!tree_.unused[inode].contains(client_.agent)) reply.orphans.push_back(inode);
    }
    co_return reply;
  }

  std::uint64_t changes = 0;

 private:
  SharedTree& tree_;
  tree::ClientId client_;
};

}  // namespace hearth::testing_support
