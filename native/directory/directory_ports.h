// The parts of a shard that directories and their clients use. The ports outlive their users and
// are used on the shard's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "directory/cluster_view.h"
#include "directory/key_directory.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"

namespace hearth {

// The chunks on this agent, for the keys of one shard.
class LocalChunks {
 public:
  virtual ~LocalChunks() = default;
  // Our part in a key, for a directory that is being made.
  [[nodiscard]] virtual AgentReport report(const ContentKey& key) = 0;
  // The chunks of a stripe that are in the cache now; nothing when the key is not here at all.
  [[nodiscard]] virtual std::optional<ChunkMask> held(const ContentKey& key,
                                                      std::uint32_t stripe) = 0;
  // `home` is asked for leave to evict the key, by the question of this number, until endRelease()
  // with the same number, or until it is asked again: report() says so.
  virtual void beginRelease(const ContentKey& key, const std::string& home,
                            std::uint64_t request) = 0;
  virtual void endRelease(const ContentKey& key, std::uint64_t request) = 0;
  // Another agent knows of a use of the key somewhere in the cluster at `usedAtMs`, since the
  // epoch.
  virtual void noteUse(const ContentKey& key, std::int64_t usedAtMs) = 0;
};

// Of an engine. Any thread.
struct DirectoryCounters {
  std::atomic<std::uint64_t> bypassed{0};  // granted because no directory answered
  // Agents that did not answer in time: as the directory, which a stand-in was asked for then, or
  // for their part in a directory that was being made. The directory left their chunks out, so
  // agents may read the origin twice.
  std::atomic<std::uint64_t> unanswered{0};
};

struct DirectoryPorts {
  const std::string& self;  // our name in the cluster
  Reactor& reactor;
  Gate& gate;                                      // background coroutines
  const std::shared_ptr<const ClusterView>& view;  // replaced when the cluster changes
  PeerTransport& transport;
  LocalChunks& chunks;
  DirectoryCounters& counters;
};

}  // namespace hearth
