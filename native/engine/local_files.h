// What an agent does for clients of its own node: passes them the cache files that it has whole,
// which they then read without it. It takes their other messages as well.
#pragma once

#include "engine/shard.h"
#include "transport/local_server.h"

namespace hearth {

class LocalFiles final : public LocalHandler {
 public:
  // Called on the home shard. `commons` must remain live while this object is used.
  explicit LocalFiles(EngineCommons& commons) : commons_(commons) {}

  // kTryElsewhere for what is not here whole, or not yet compared with its digest: it is read over
  // the network, as long as that is so. A file that was passed is in use until it is given back.
  Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability> client,
                                           ControlMessage request) override;

 private:
  static Task<Result<LocalAnswer>> openHere(Shard& owner, FileReference file);

  EngineCommons& commons_;
};

}  // namespace hearth
