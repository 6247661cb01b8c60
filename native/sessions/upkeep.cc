// VolumeSessions: files without names, and chunks that nothing names (rule R11 of
// docs/design/namespace.md). The leader names them; this agent says when no process of its node has
// them open, and when they are gone.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

constexpr Clock::duration kUpkeepPause = std::chrono::seconds(1);

}  // namespace

std::string VolumeSessions::pathOf(const SealedName& name, std::size_t directory) const {
  return sealedFolder(volumeFolder(options_.cacheDirectories[directory], options_.id)) + "/" +
         textOf(name);
}

Task<void> VolumeSessions::upkeep() {
  Released released;
  for (bool soon = false; soon || !co_await closing_.waitUntil(Clock::now() + kUpkeepPause);) {
    // The leader names again whatever it has not heard.
    const UpkeepReply reply = co_await ports_.client.upkeep(std::exchange(released, {}));
    soon = false;
    if (reply.error != 0) continue;
    for (const tree::InodeId inode : reply.orphans) {
      if (!isUsed(inode)) released.unused.push_back(inode);
    }
    for (const NamedGarbage& each : reply.garbage) {
      if (closing_.isSet()) co_return;
      if (!each.mayGo && !isRead(each.garbage)) released.unread.push_back(each.id);
      if (each.mayGo && co_await collect(each.garbage)) released.collected.push_back(each.id);
    }
    // The leader names more once this agent has released something: an evicted file takes several
    // rounds.
    soon = !released.unused.empty() || !released.unread.empty() || !released.collected.empty();
  }
}

bool VolumeSessions::isUsed(tree::InodeId inode) const {
  if (files_.contains(inode) || opening_.contains(inode)) return true;
  const auto [first, last] = readers_.equal_range(inode);
  const bool read =
      std::any_of(first, last, [](const auto& each) { return !each.second.file.expired(); });
  return read || std::ranges::any_of(openFiles_, [inode](const auto& open) {
           return open(inode, tree::kNoSession);
         });
}

bool VolumeSessions::isRead(const tree::Garbage& garbage) const {
  if (opening_.contains(garbage.inode)) return true;
  const auto names = [&](tree::SessionId session) {
    return std::ranges::any_of(
        garbage.runs, [session](const tree::ChunkRun& run) { return run.session == session; });
  };
  const auto [first, last] = readers_.equal_range(garbage.inode);
  const bool read = std::any_of(first, last, [&](const auto& each) {
    return names(each.second.session) && !each.second.file.expired();
  });
  return read || std::ranges::any_of(garbage.runs, [&](const tree::ChunkRun& run) {
           return std::ranges::any_of(
               openFiles_, [&](const auto& open) { return open(garbage.inode, run.session); });
         });
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
    // Pins and views are those of datasets, which keep the bytes from now on as they keep others.
    const bool left = gone.ok() && *gone != EvictOutcome::kInUse;
    if (!left) co_return false;
    auto remove = [path = pathOf(file.name, file.directory)] { return ::unlink(path.c_str()); };
    (void)co_await ports_.reactor.offload(remove);
    sealed_.erase(run.session);
  }
  co_return true;
}

}  // namespace hearth
