#include "directory/placement.h"

#include <algorithm>
#include <numeric>

namespace hearth {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

}  // namespace

std::uint64_t nodeHash(std::string_view node) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : node) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3ull;
  }
  return mix(hash);
}

std::uint64_t placementWeight(std::uint64_t item, std::uint64_t node) {
  return mix(item ^ mix(node));
}

std::uint64_t stripeItem(std::uint64_t keyPrefix, std::uint32_t stripe) {
  return mix(keyPrefix + 0xD1B54A32D192ED03ull * (stripe + 1ull));
}

std::vector<std::size_t> rendezvousOrder(std::uint64_t item,
                                         std::span<const std::uint64_t> nodeHashes,
                                         std::size_t count) {
  std::vector<std::size_t> order(nodeHashes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  count = std::min(count, order.size());
  const auto heavier = [&](std::size_t a, std::size_t b) {
    const std::uint64_t weightA = placementWeight(item, nodeHashes[a]);
    const std::uint64_t weightB = placementWeight(item, nodeHashes[b]);
    return weightA != weightB ? weightA > weightB : nodeHashes[a] < nodeHashes[b];
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    heavier);
  order.resize(count);
  return order;
}

}  // namespace hearth
