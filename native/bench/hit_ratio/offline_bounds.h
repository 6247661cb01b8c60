// Bounds for a cache that knows the future, or the generator.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/hit_ratio/simulated_cache.h"

namespace hearth::hit_ratio {

// No policy of whole files, online or offline, has a higher byte hit ratio from read `warmUp` on.
//
// The linear relaxation of offline caching (FOO-U of Berger, Beckmann, Harchol-Balter, "Practical
// Bounds on Optimal Caching with Variable Object Sizes", POMACS 2(2), 2018): parts of files may be
// cached. When what counts is bytes, each byte is an object of size 1 and worth 1, and the relaxed
// problem needs no min-cost flow: keeping those that are read again first (Belady, "A study of
// replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966), with the
// choice not to keep what is read, is its optimum. What is read again within the warm-up has no
// value and is not kept.
[[nodiscard]] double offlineBound(const ModelTrace& trace, std::uint64_t capacityBytes,
                                  std::size_t warmUp);

// The same with whole files only: what an offline policy certainly reaches. The optimum is between
// this and offlineBound.
[[nodiscard]] double offlineReached(const ModelTrace& trace, std::uint64_t capacityBytes,
                                    std::size_t warmUp);

// Knows the weights by which the generator draws the next load, from the moment that they change,
// and drops what has the least: about what is possible without knowing the draws themselves. An
// online policy has to learn the weights from the same draws. kLasting: all but which models are
// being rolled out. `trace` must remain live while the policy is used.
enum class Known { kWeights, kLasting };
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makePopularityOracle(const ModelTrace& trace,
                                                                      Known known);

}  // namespace hearth::hit_ratio
