// Serves clients of this node: passes them the cache files that are complete here, which they then
// read without the agent. Also takes their other messages.
#pragma once

#include "engine/shard.h"
#include "transport/local_server.h"

namespace hearth {

class LocalFiles final : public LocalHandler {
 public:
  // Called on the home shard. `commons` must remain live while this object is used.
  explicit LocalFiles(EngineCommons& commons) : commons_(commons) {}

  // kTryElsewhere for a file that is not complete here, or not yet compared with its digest: the
  // client reads it over the network meanwhile. A passed file is in use until it is given back.
  Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability> client,
                                           ControlMessage request) override;

 private:
  static Task<Result<LocalAnswer>> openHere(Shard& owner, FileReference file);

  EngineCommons& commons_;
};

}  // namespace hearth
