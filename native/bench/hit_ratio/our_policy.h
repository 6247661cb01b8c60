// The engine's policy (native/eviction) as one of those that are compared.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/hit_ratio/simulated_cache.h"
#include "eviction/eviction_policy.h"

namespace hearth::hit_ratio {

// `trace` must remain live while the policy is used.
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeOurs(const ModelTrace& trace,
                                                          std::uint64_t capacityBytes,
                                                          EvictionTuning tuning = {});

}  // namespace hearth::hit_ratio
