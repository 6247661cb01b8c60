// Bounds how much of one shard all reads into callers' memory (direct_read.h) take together:
// readers of mounts use the same peers and helpers, and a small read of theirs queues behind no
// more than this. Used on the shard's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/generated/constants.h"
#include "reactor/synchronization.h"

namespace hearth {

class DirectReadSlots {
 public:
  // Bytes in flight from one peer: a quarter of the credit that a peer gives, and about as much as
  // a link of 100 Gbit/s carries in a millisecond. Each peer has its own slots, so that slow peers
  // delay no read from another. Answers of several peers share the link by connection; a mount's
  // read queues only behind those of its own peer.
  static constexpr std::uint64_t kPeerBytes = 16u << 20;
  // A smaller part counts as this much: it costs a request and a turn like any other.
  static constexpr std::uint64_t kMinBytes = 1u << 20;
  // Parts that the reactor's helper threads copy at a time; two more helpers remain for others.
  static constexpr std::uint64_t kCopies = 2;

  // `reactor` must remain live while this object is used.
  explicit DirectReadSlots(Reactor& reactor) : copies(reactor, kCopies), reactor_(reactor) {}

  Semaphore copies;

  // Awaitable, first come, first served: slots at `peer` for `bytes`, at most kPeerBytes. The
  // caller gives them back by release().
  [[nodiscard]] auto acquire(const std::string& peer, std::uint64_t bytes) {
    return ofPeers_.try_emplace(peer, reactor_).first->second.slots.acquire(bytes);
  }
  void release(const std::string& peer, std::uint64_t bytes) {
    const auto known = ofPeers_.find(peer);
    known->second.slots.release(bytes);
    // All slots are free only when nobody waits for one.
    if (known->second.slots.available() == kPeerBytes) ofPeers_.erase(known);
  }
  // A read that has slots at the peer got no answer in time. Reads that wait for slots have waited
  // as long; they see this count change and go elsewhere.
  void noteLate(const std::string& peer) { ++ofPeers_.at(peer).late; }
  [[nodiscard]] std::uint64_t late(const std::string& peer) const {
    const auto known = ofPeers_.find(peer);
    return known == ofPeers_.end() ? 0 : known->second.late;
  }
  // The slots, in bytes, for a part of that size.
  [[nodiscard]] static std::uint64_t bytesOf(std::uint64_t part) {
    return std::clamp(part, kMinBytes, kPeerBytes);
  }

 private:
  struct Peer {
    explicit Peer(Reactor& reactor) : slots(reactor, kPeerBytes) {}
    Semaphore slots;
    std::uint64_t late = 0;
  };
  Reactor& reactor_;
  std::map<std::string, Peer> ofPeers_;  // peers with slots taken
};

}  // namespace hearth
