// How much of one shard all reads into callers' memory take together (direct_read.h): who reads a
// mount uses the same peers and helpers, and its small read is behind no more than this. Used on
// the shard's thread only.
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
  // That are asked of one peer and have not come: a quarter of the credit that it gives, and as
  // much as is on its way on a link of 100 Gbit/s whose answers take a millisecond. Each peer has
  // slots of its own: however many are slow, no read from another waits for them. What comes from
  // several shares the link by their connections, and a mount's read is behind that of its own
  // peer.
  static constexpr std::uint64_t kPeerBytes = 16u << 20;
  // What a small part counts for, as it takes a request and a turn like others.
  static constexpr std::uint64_t kMinBytes = 1u << 20;
  // Parts that helpers of the reactor copy, which has two more.
  static constexpr std::uint64_t kCopies = 2;

  // `reactor` must remain live while this object is used.
  explicit DirectReadSlots(Reactor& reactor) : copies(reactor, kCopies), reactor_(reactor) {}

  Semaphore copies;

  // Awaitable, first come, first served: slots at a peer for at most kPeerBytes, which the caller
  // has afterwards and gives back by release().
  [[nodiscard]] auto acquire(const std::string& peer, std::uint64_t bytes) {
    return ofPeers_.try_emplace(peer, reactor_).first->second.slots.acquire(bytes);
  }
  void release(const std::string& peer, std::uint64_t bytes) {
    const auto known = ofPeers_.find(peer);
    known->second.slots.release(bytes);
    // All are free only when none waits for any.
    if (known->second.slots.available() == kPeerBytes) ofPeers_.erase(known);
  }
  // Whoever has slots at the peer was not answered in time. Those who wait for slots have waited as
  // long; when this count has changed meanwhile they go elsewhere.
  void noteLate(const std::string& peer) { ++ofPeers_.at(peer).late; }
  [[nodiscard]] std::uint64_t late(const std::string& peer) const {
    const auto known = ofPeers_.find(peer);
    return known == ofPeers_.end() ? 0 : known->second.late;
  }
  // Of a part of so many bytes.
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
  std::map<std::string, Peer> ofPeers_;  // of which some are taken
};

}  // namespace hearth
