// Serves clients of this node: passes them the cache files that are complete here, which they then
// read without the agent. Also takes their other messages.
#pragma once

#include <vector>

#include "engine/passed_mounts.h"
#include "engine/shard.h"
#include "transport/local_server.h"

namespace hearth {

class LocalFiles final : public LocalHandler {
 public:
  // Called on the home shard. `commons` must remain live while this object is used.
  explicit LocalFiles(EngineCommons& commons) : commons_(commons) {}

  // On the home shard, before the first request: files of these directories may be passed. Logs of
  // which none can be.
  [[nodiscard]] Task<void> passFrom(std::vector<CacheDirectoryOptions> directories);
  // How much of the directories clients may have open, which cannot be evicted: a pod has room for
  // its models, and beside it there is room for mounts, warm jobs and other pods.
  [[nodiscard]] static ClientLimits openBytes(
      const std::vector<CacheDirectoryOptions>& directories);

  // kTryElsewhere for a file that is not complete here, or not yet compared with its digest, or
  // that lies in no directory of which files can be passed: the client reads it over the network. A
  // passed file is in use until nobody has it open.
  Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability> client,
                                           ControlMessage request) override;

 private:
  class Passed;
  [[nodiscard]] Task<Result<LocalAnswer>> openHere(Shard& owner, FileReference file);

  EngineCommons& commons_;
  std::shared_ptr<PassedMounts> mounts_;  // null: no file can be passed
};

}  // namespace hearth
