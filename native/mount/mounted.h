// One mount of this agent, for Mounts alone. On the home shard's thread.
#pragma once

#include <memory>
#include <string>

#include "fuse/fuse_session.h"
#include "mount/mounts.h"

namespace hearth {

struct Mounts::Mounted {
  MountInfo info;
  bool view = false;
  std::unique_ptr<FuseSession> session;  // FUSE only
  std::shared_ptr<Dataset> dataset;      // of the session

  [[nodiscard]] MountInfo now() const {
    MountInfo result = info;
    if (session == nullptr) return result;
    const FuseStatistics statistics = session->statistics();
    result.readsServed = statistics.reads;
    result.bytesServed = statistics.bytes;
    result.passthroughOpens = statistics.passthroughOpens;
    result.daemonOpens = statistics.daemonOpens;
    if (const std::string reason = session->passthroughReason(); !reason.empty()) {
      result.dataPath = "daemon";
      result.reason = reason;
    }
    return result;
  }
};

}  // namespace hearth
