// Upkeep: agents and the leader agree on orphans that nobody has open, and on garbage.
#include <algorithm>
#include <cerrno>

#include "volume/leader_service.h"

namespace hearth {
namespace {

// Garbage that one reply brings; with its runs a reply stays below kMaxControlBytes.
constexpr std::size_t kMaxRunsInReply = 16'384;

bool holds(const tree::Garbage& garbage, tree::AgentId agent) {
  return std::ranges::any_of(garbage.runs,
                             [agent](const tree::ChunkRun& run) { return run.holder == agent; });
}

}  // namespace

Task<Result<UpkeepReply>> LeaderService::upkeep(std::string node, UpkeepMessage message) {
  const auto term = termOf(message.epoch);
  if (!term.ok()) co_return term.error();
  const Call call(*term);
  const tree::AgentId agent = call.leader().executed().tree().agentOf(node);
  if (agent == tree::kNoAgent) co_return UpkeepReply();
  Status done = co_await forgetUnused(call.term(), std::move(message.released.unused), agent);
  const auto& garbage = call.leader().executed().tree().garbage();
  for (const tree::GarbageId& id : message.released.unread) {
    if (garbage.contains(id)) call.term().unread[id].insert(agent);
  }
  if (done.ok()) {
    done = co_await forgetCollected(call.term(), std::move(message.released.collected), agent);
  }
  if (!done.ok()) co_return done.error();
  co_return askFor(call.term(), agent);
}

Task<Status> LeaderService::forgetUnused(Term& term, std::vector<tree::InodeId> unused,
                                         tree::AgentId by) {
  const tree::Tree& tree = term.leader->executed().tree();
  for (const tree::InodeId inode : unused) {
    if (!tree.orphans().contains(inode)) continue;
    std::set<tree::AgentId>& said = term.unused[inode];
    said.insert(by);
    if (!haveAllSaid(tree, said)) continue;
    const auto forgotten = co_await term.leader->decide(tree::Forget{inode});
    if (!forgotten.ok()) co_return forgotten.error();
    if (forgotten->error == 0) term.unused.erase(inode);
  }
  co_return Status();
}

bool LeaderService::haveAllSaid(const tree::Tree& tree, const std::set<tree::AgentId>& said) const {
  return std::ranges::all_of(tree.agents(), [&](const auto& agent) {
    return said.contains(agent.first) || ports_.isGone(agent.second.node);
  });
}

// Of a file that was forgotten every agent has said that it is not open.
bool LeaderService::mayGo(const Term& term, const tree::GarbageId& id,
                          const tree::Garbage& garbage) const {
  const tree::Tree& tree = term.leader->executed().tree();
  if (tree.find(garbage.inode) == nullptr) return true;
  const auto said = term.unread.find(id);
  return said != term.unread.end() && haveAllSaid(tree, said->second);
}

Task<Status> LeaderService::forgetCollected(Term& term, std::vector<tree::GarbageId> collected,
                                            tree::AgentId by) {
  const tree::Tree& tree = term.leader->executed().tree();
  tree::Collected gone;
  for (const tree::GarbageId& id : collected) {
    const auto found = tree.garbage().find(id);
    if (found == tree.garbage().end() || !holds(found->second, by)) continue;
    if (!mayGo(term, id, found->second)) continue;
    std::set<tree::AgentId>& said = term.collected[id];
    said.insert(by);
    const bool byAll = std::ranges::all_of(found->second.runs, [&](const tree::ChunkRun& run) {
      return run.holder == tree::kNoAgent || said.contains(run.holder);
    });
    if (byAll) gone.ids.push_back(id);
  }
  if (gone.ids.empty()) co_return Status();
  const auto forgotten = co_await term.leader->decide(gone);
  if (!forgotten.ok()) co_return forgotten.error();
  for (const tree::GarbageId& id : gone.ids) {
    term.collected.erase(id);
    term.unread.erase(id);
  }
  co_return Status();
}

UpkeepReply LeaderService::askFor(const Term& term, tree::AgentId agent) const {
  const tree::Tree& tree = term.leader->executed().tree();
  const auto hasSaid = [agent](const auto& said, const auto& id) {
    const auto found = said.find(id);
    return found != said.end() && found->second.contains(agent);
  };
  UpkeepReply reply;
  for (const tree::InodeId inode : tree.orphans()) {
    if (hasSaid(term.unused, inode)) continue;
    reply.more = reply.orphans.size() == kMaxUpkeepIds;
    if (reply.more) break;
    reply.orphans.push_back(inode);
  }
  std::size_t runs = 0;
  for (const auto& [id, garbage] : tree.garbage()) {
    // R11: of a record that no later leader lacks.
    if (id.record > term.leader->committedRecord()) break;
    const bool goes = mayGo(term, id, garbage);
    if (goes && (!holds(garbage, agent) || hasSaid(term.collected, id))) continue;
    if (!goes && hasSaid(term.unread, id)) continue;
    runs += garbage.runs.size();
    if (reply.garbage.size() == kMaxUpkeepIds ||
        (runs > kMaxRunsInReply && !reply.garbage.empty())) {
      reply.more = true;
      break;
    }
    reply.garbage.push_back({id, goes, garbage});
  }
  return reply;
}

}  // namespace hearth
