#include "transport/write_order.h"

#include "transport/limits.h"

namespace hearth {

WriteOrder::Place::Place(WriteOrder& order, const WriteRequest& request, OnLoss onLoss)
    : order_(order),
      key_(request.key),
      begin_(request.offset),
      end_(request.offset + request.length),
      generation_(request.generation),
      onLoss_(std::move(onLoss)),
      position_(order.places_.insert(order.places_.end(), this)) {}

WriteOrder::Place::~Place() {
  order_.places_.erase(position_);
  order_.changed_.set();
}

bool WriteOrder::Place::overlaps(const Place& other) const {
  return key_ == other.key_ && begin_ < other.end_ && other.begin_ < end_;
}

void WriteOrder::Place::lose(bool pressing) {
  if (lost_ && !pressing) return;
  lost_ = true;
  onLoss_(pressing);
}

Error WriteOrder::lost() {
  return {ErrorCode::kConflict, "a newer write of these bytes is on its way"};
}

Task<Result<std::unique_ptr<WriteOrder::Place>>> WriteOrder::enter(WriteRequest request,
                                                                   Interest interest,
                                                                   OnLoss onLoss) {
  auto place = std::make_unique<Place>(*this, request, std::move(onLoss));
  const Clock::time_point pressFrom = Clock::now() + kReleaseGrace;
  for (;;) {
    if (place->lost_) co_return lost();
    if (!interest.lives())
      co_return Error{ErrorCode::kCancelled, "the write is no longer waited for"};
    bool alone = true;
    for (Place* const other : places_) {
      if (other == place.get()) break;
      if (!other->overlaps(*place)) continue;
      if (other->generation_ > place->generation_) co_return lost();
      other->lose(Clock::now() >= pressFrom);
      alone = false;
    }
    if (alone) co_return place;
    changed_.reset();
    co_await changed_.waitUntil(Clock::now() + kReleaseGrace);
  }
}

}  // namespace hearth
