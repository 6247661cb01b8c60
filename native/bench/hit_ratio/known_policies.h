// Policies of the literature, as published, that ours is compared with. Sizes count where their
// authors have them count.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/hit_ratio/simulated_cache.h"

namespace hearth::hit_ratio {

// Each: `trace` must remain live while the policy is used.

[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeLru(const ModelTrace& trace);

// Counts of what is cached, forgotten with it; of equal ones the least recently used goes.
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeLfu(const ModelTrace& trace);

// Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU", NSDI 2024, algorithm 1.
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeSieve(const ModelTrace& trace);

// Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023,
// algorithm 1: a small queue of 10 % of the bytes, the ghost queue as large as the main one.
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeS3Fifo(const ModelTrace& trace,
                                                            std::uint64_t capacityBytes);

// Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy",
// HP Labs 98-69, 1998: value = clock + count * cost / size, the clock being the value of what went
// last. `cost`: 1 for most hits, the file's size for most bytes (the count alone decides then).
enum class GdsfCost { kOne, kBytes };
[[nodiscard]] std::unique_ptr<ReplacementPolicy> makeGdsf(const ModelTrace& trace, GdsfCost cost);

}  // namespace hearth::hit_ratio
