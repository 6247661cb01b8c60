// Rendezvous (highest random weight) placement: Thaler and Ravishankar, 1998. Every agent computes
// the same order from the same names; one agent more or less moves only what it must. The mixing
// functions are fixed for ever (FNV-1a, and the finaliser of SplitMix64): agents of different
// versions must agree. Pure: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hearth {

[[nodiscard]] std::uint64_t nodeHash(std::string_view node);

// The weight of a node for an item; the highest wins.
[[nodiscard]] std::uint64_t placementWeight(std::uint64_t item, std::uint64_t nodeHash);

// Item numbers of the stripes of one key.
[[nodiscard]] std::uint64_t stripeItem(std::uint64_t keyPrefix, std::uint32_t stripe);

// Positions in `nodeHashes` by falling weight, at most `count` of them. Equal weights: lower hash
// first.
[[nodiscard]] std::vector<std::size_t> rendezvousOrder(std::uint64_t item,
                                                       std::span<const std::uint64_t> nodeHashes,
                                                       std::size_t count);

}  // namespace hearth
