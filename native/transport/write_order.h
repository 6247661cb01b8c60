// Which of several writes to a range of a key goes on. The rule, which holds whatever the order in
// which they come:
//
//   Of two writes that overlap the newer one goes on: the one of the greater WriteVersion
//   (peer_transport.h), so the one with the higher generation, and with equal generations that of
//   the node whose name is greater. With the same generation of the same node, and so the same
//   bytes, it is the one that was asked for last, since who asks again has given up the other.
//
// Of writes that overlap one has its place at a time. An older one is refused, and one that had its
// place loses it; the newer one gets its own when the memory of the other is touched no more. So
// what comes late of a write never lies over newer bytes, on whatever connection it comes.
//
// How far it reaches: over all connections that one transport has accepted. A transport is one
// shard's, and peers with other numbers of shards bring a key to another shard: what of it is
// ordered beyond one is the handler's, which gives a write memory of its own and compares versions
// again when it has landed.
//
// What has ended need not be remembered here. A byte of a write is sent only after its receiver was
// ready and while its asker wants it, so a write that was given up, or whose connection has ended,
// cannot begin late. An asker that wants an older version after a newer one has landed is refused
// by the handler, which has the bytes and knows theirs (PeerHandler::onWrite). On the reactor's
// thread.
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
  // `grace`: after which one that does not leave its place is pressed, and how often who waits
  // looks whether it is still wanted. `reactor` must remain live while this object is used.
  explicit WriteOrder(Reactor& reactor, Clock::duration grace = kReleaseGrace)
      : reactor_(reactor), grace_(grace) {}

  // A write's place, until it is destroyed; before the order.
  class Place;
  // Called when a newer write wants the place: nothing is to be written any more. `pressing`:
  // again, since the place is still there after the grace. It destroys no place.
  using OnLoss = std::function<void(bool pressing)>;
  // The place of a write of `node`, once no other one has a place that overlaps. kConflict: there
  // is a newer one; kUnavailable: kWritesWaitingPerNode of the node wait already, and it may try
  // again later; kCancelled: the interest has ended.
  [[nodiscard]] Task<Result<std::unique_ptr<Place>>> enter(std::string node, WriteRequest request,
                                                           Interest interest, OnLoss onLoss);
  [[nodiscard]] static Error lost();

 private:
  class Waiting;
  // The places in one chunk of a key: writes lie inside one, so only these can overlap.
  struct Chunk {
    explicit Chunk(Reactor& reactor) : changed(reactor) {}
    std::list<Place*> places;  // in the order in which they were asked for
    Event changed;
  };
  using Chunks = std::map<std::pair<ContentKey, std::uint64_t>, Chunk>;

  Reactor& reactor_;
  const Clock::duration grace_;
  Chunks chunks_;                               // that have places
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
  // Those that overlap it and were asked for before.
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
