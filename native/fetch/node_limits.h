// Limits on the resources that one node shares with others. One object an engine. Any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fetch/bandwidth_limiter.h"

namespace hearth {

// Bytes a second.
struct NodeLimitOptions {
  BandwidthLimits origin, peers, disk;
};

// Use of one limit, counted while the limit is set.
struct LimitUse {
  std::string what;
  BandwidthLimits configured;
  BandwidthUse demand, warm;
};

struct NodeLimits {
  // Bytes from peers and bytes to peers have a budget each: networks carry both at a time.
  explicit NodeLimits(const NodeLimitOptions& options)
      : origin(options.origin),
        fromPeers(options.peers),
        toPeers(options.peers),
        disk(options.disk) {}

  BandwidthLimiter origin;              // asked of origins
  BandwidthLimiter fromPeers, toPeers;  // of files
  BandwidthLimiter disk;                // written to and read from cache files, together

  [[nodiscard]] std::vector<LimitUse> uses() const {
    const auto of = [](std::string what, const BandwidthLimiter& limiter) {
      return LimitUse{std::move(what), limiter.configured(), limiter.use(Priority::kDemand),
                      limiter.use(Priority::kBackground)};
    };
    return {of("origin", origin), of("from-peers", fromPeers), of("to-peers", toPeers),
            of("disk", disk)};
  }
  // Lifts all limits.
  void cancel() {
    for (BandwidthLimiter* const each : {&origin, &fromPeers, &toPeers, &disk}) each->cancel();
  }
};

}  // namespace hearth
