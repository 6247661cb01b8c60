// VolumeSessions: files without names that nobody has open, and chunks that nothing names (rule R11
// of docs/design/namespace.md). The leader says which these are; this agent says when they are
// gone.
#include <unistd.h>

#include <algorithm>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

constexpr Clock::duration kPause = std::chrono::seconds(1);

}  // namespace

std::string VolumeSessions::pathOf(const SealedName& name, std::size_t directory) const {
  return sealedFolder(volumeFolder(options_.cacheDirectories[directory], options_.id)) + "/" +
         textOf(name);
}

Task<void> VolumeSessions::upkeep() {
  std::vector<tree::InodeId> unused;
  std::vector<tree::GarbageId> collected;
  std::map<tree::GarbageId, Clock::time_point> seen;
  for (bool soon = false; soon || !co_await closing_.waitUntil(Clock::now() + kPause);) {
    const UpkeepReply reply = co_await ports_.client.upkeep(unused, collected);
    soon = false;
    // What the leader has not heard is asked for again.
    unused.clear();
    collected.clear();
    if (reply.error != 0) continue;
    for (const tree::InodeId inode : reply.orphans) {
      if (!isUsed(inode)) unused.push_back(inode);
    }
    std::map<tree::GarbageId, Clock::time_point> still;
    for (const NamedGarbage& each : reply.garbage) {
      if (closing_.isSet()) co_return;
      const auto known = seen.find(each.id);
      const Clock::time_point since = known == seen.end() ? Clock::now() : known->second;
      const bool due = Clock::now() - since >= options_.keepsReplaced;
      if (due && co_await collect(each.garbage)) {
        collected.push_back(each.id);
      } else {
        still.emplace(each.id, since);
      }
    }
    seen = std::move(still);
    soon = reply.more && (!unused.empty() || !collected.empty());
  }
}

bool VolumeSessions::isUsed(tree::InodeId inode) const {
  if (files_.contains(inode)) return true;
  const auto [first, last] = readers_.equal_range(inode);
  const bool read =
      std::any_of(first, last, [](const auto& each) { return !each.second.expired(); });
  return read || std::ranges::any_of(openFiles_, [inode](const auto& open) { return open(inode); });
}

Task<bool> VolumeSessions::collect(const tree::Garbage& garbage) {
  const auto sealing = [&](const tree::ChunkRun& run) {
    return std::ranges::any_of(files_, [&](const auto& each) {
      return each.second->session && each.second->session->id == run.session;
    });
  };
  for (const tree::ChunkRun& run : garbage.runs) {
    if (sealing(run)) co_return false;
    const auto found = sealed_.find(run.session);
    if (found == sealed_.end()) continue;
    const SealedFile file = found->second;
    const std::uint32_t first = file.name.first;
    if (first < run.first || first - run.first >= run.count) continue;
    ContentCache& cache = ports_.mounting.cache;
    cache.unpin(file.name.key, owner_);
    co_await ports_.mounting.owner(file.name.key).reactor.enter();
    const Result<EvictOutcome> gone = co_await cache.evict(file.name.key);
    co_await ports_.reactor.enter();
    const bool left =
        gone.ok() && (*gone == EvictOutcome::kEvicted || *gone == EvictOutcome::kAbsent);
    if (!left) co_return false;
    auto remove = [path = pathOf(file.name, file.directory)] { return ::unlink(path.c_str()); };
    (void)co_await ports_.reactor.offload(remove);
    sealed_.erase(run.session);
  }
  co_return true;
}

}  // namespace hearth
