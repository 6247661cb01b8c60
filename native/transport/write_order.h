// Which of several writes to a range of a key goes on: of one transport's side that receives, over
// all of its connections. A transport is one shard's, and peers with other numbers of shards bring
// a key to another shard: what of it is ordered beyond one is the handler's, which gives a write
// memory of its own and compares generations again when it has landed.
//
// Of writes that overlap one has its place at a time, and the newer one gets it: the one with the
// higher generation; with the same generation, and so the same bytes, the one that was asked for
// last, since who asks again has given up the other. An older one is refused, and one that had its
// place loses it; the newer one gets its own when the memory of the other is touched no more. So
// what comes late of a write never lies over newer bytes, on whatever connection it comes.
//
// What has ended need not be remembered here. A byte of a write is sent only after its receiver was
// ready and while its asker wants it, so a write that was given up, or whose connection has ended,
// cannot begin late. An asker that wants an older generation after a newer one has landed is
// refused by the handler, which has the bytes and knows theirs (PeerHandler::onWrite). On the
// reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "reactor/synchronization.h"
#include "transport/peer_transport.h"

namespace hearth {

class WriteOrder {
 public:
  explicit WriteOrder(Reactor& reactor) : changed_(reactor) {}

  // A write's place, until it is destroyed.
  class Place;
  // Called when a newer write wants the place: nothing is to be written any more. `pressing`:
  // again, since the place is still there after kReleaseGrace. It destroys no place.
  using OnLoss = std::function<void(bool pressing)>;
  // The place of a write, once no other one has a place that overlaps. kConflict: there is a newer
  // one; kCancelled: the interest has ended.
  [[nodiscard]] Task<Result<std::unique_ptr<Place>>> enter(WriteRequest request, Interest interest,
                                                           OnLoss onLoss);
  [[nodiscard]] static Error lost();

 private:
  std::list<Place*> places_;  // in the order in which they were asked for
  Event changed_;
};

class WriteOrder::Place {
 public:
  Place(WriteOrder& order, const WriteRequest& request, OnLoss onLoss);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  friend WriteOrder;
  [[nodiscard]] bool overlaps(const Place& other) const;
  void lose(bool pressing);

  WriteOrder& order_;
  const ContentKey key_;
  const std::uint64_t begin_, end_, generation_;
  const OnLoss onLoss_;
  bool lost_ = false;
  std::list<Place*>::iterator position_;
};

}  // namespace hearth
