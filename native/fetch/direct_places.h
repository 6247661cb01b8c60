// How much of one shard all reads into callers' memory take together (direct_read.h): who reads a
// mount uses the same peers and helpers, and its small read is behind no more than this. Used on
// the shard's thread only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/generated/constants.h"
#include "reactor/synchronization.h"

namespace hearth {

class DirectPlaces {
 public:
  // That are asked of peers and have not come: a quarter of the credit that one peer gives, and as
  // much as is on its way on a link of 100 Gbit/s whose answers take a millisecond.
  static constexpr std::uint64_t kPeerBytes = 16u << 20;
  // What a small part counts for, as it takes a request and a turn like others.
  static constexpr std::uint64_t kLeastBytes = 1u << 20;
  // Parts that helpers of the reactor copy, which has two more.
  static constexpr std::uint64_t kCopies = 2;

  explicit DirectPlaces(Reactor& reactor)
      : peerBytes(reactor, kPeerBytes), copies(reactor, kCopies) {}

  // First come, first served.
  Semaphore peerBytes, copies;

  // Of a part of so many bytes.
  [[nodiscard]] static std::uint64_t bytesOf(std::uint64_t part) {
    return std::clamp(part, kLeastBytes, kPeerBytes);
  }
};

}  // namespace hearth
