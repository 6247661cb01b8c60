// Serves clients of this node: passes them the cache files that are complete here, which they then
// read without the agent. Also takes their other messages.
#pragma once

#include <vector>

#include "engine/read_only_folder.h"
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

  // kTryElsewhere for a file that is not complete here, or not yet compared with its digest, or
  // that lies in no directory of which files can be passed: the client reads it over the network. A
  // passed file is in use until it is given back.
  Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability> client,
                                           ControlMessage request) override;

 private:
  // What a client has of a file until it gives it back: it stays in the cache and in memory.
  struct Passed {
    std::shared_ptr<FileFetch> fetch;
    std::shared_ptr<CachedFile> copy;  // in memory, which the client reads if it can; or null
  };
  [[nodiscard]] Task<Result<LocalAnswer>> openHere(Shard& owner, FileReference file);
  // A descriptor that a client may have. Blocks for a path look-up; any thread.
  [[nodiscard]] Result<OwnedFd> openForClient(const CachedFile& file) const;

  EngineCommons& commons_;
  std::vector<ReadOnlyFolder> folders_;
};

}  // namespace hearth
