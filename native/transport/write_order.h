// Decides which of several writes to a range of a key goes on. The rule holds in whatever order
// they come:
//
//   - Of two writes that overlap the newer one goes on: the one of the greater WriteVersion
//     (peer_transport.h), that is, of the higher generation or, with equal generations, of the node
//     with the greater name. With the same generation of the same node, and so the same bytes, the
//     last request goes on, since an asker that asks again has given up the first.
//
// Only one of several overlapping writes has its place at a time. An older write is refused, and
// loses its place if it had one; the newer one gets its own place when nothing touches the memory
// of the older one any more. So late bytes of a write never overwrite newer bytes, on whatever
// connection they come.
//
// Scope: all connections that one transport has accepted. A transport is one shard's, and peers
// with other numbers of shards bring a key to another shard. The handler orders writes across
// shards: it gives each write memory of its own and compares versions again when the write has
// landed.
//
// The order need not remember ended writes. A byte of a write is sent only after its receiver was
// ready and while its asker wants the write, so a write that was given up, or whose connection has
// ended, cannot begin late. The handler refuses an older version after a newer one has landed, as
// it has the bytes and knows their version (PeerHandler::onWrite). On the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reactor/synchronization.h"
#include "transport/limits.h"
#include "transport/peer_transport.h"

namespace hearth {

class WriteOrder {
 public:
  // `grace`: time after which a write that does not leave its place is pressed, and pause between
  // looks of a waiting write whether it is still wanted. `reactor` must remain live while this
  // object is used.
  explicit WriteOrder(Reactor& reactor, Clock::duration grace = kReleaseGrace)
      : reactor_(reactor), grace_(grace) {}

  // A write's place, until it is destroyed. Places must go before the order.
  class Place;
  // Called when a newer write wants the place: nothing may be written any more. `pressing`: called
  // again, since the place is still there after the grace. Must not destroy a place.
  using OnLoss = std::function<void(bool pressing)>;
  // Returns the place of a write of `node`, once no overlapping place is left. kConflict: there is
  // a newer write; kUnavailable: kWritesWaitingPerNode of the node wait already, try again later;
  // kCancelled: the interest has ended.
  [[nodiscard]] Task<Result<std::unique_ptr<Place>>> enter(std::string node, WriteRequest request,
                                                           Interest interest, OnLoss onLoss);
  [[nodiscard]] static Error lost();

 private:
  class Waiting;
  // The places in one chunk of a key: writes lie inside one, so only these can overlap.
  struct Chunk {
    explicit Chunk(Reactor& reactor) : changed(reactor) {}
    std::list<Place*> places;  // in the order of their requests
    Event changed;
  };
  using Chunks = std::map<std::pair<ContentKey, std::uint64_t>, Chunk>;

  Reactor& reactor_;
  const Clock::duration grace_;
  Chunks chunks_;                               // chunks that have places
  std::map<std::string, std::size_t> waiting_;  // by node; none is 0
};

class WriteOrder::Place {
 public:
  // `order` must remain live while this object is used.
  Place(WriteOrder& order, std::string node, const WriteRequest& request, OnLoss onLoss);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  friend WriteOrder;
  // Overlapping places that were asked for earlier.
  [[nodiscard]] std::vector<Place*> before() const;
  void lose(bool pressing);

  WriteOrder& order_;
  const Chunks::iterator chunk_;
  const std::uint64_t begin_, end_;
  const WriteVersion version_;
  const OnLoss onLoss_;
  bool lost_ = false;
  std::list<Place*>::iterator position_;
};

}  // namespace hearth
