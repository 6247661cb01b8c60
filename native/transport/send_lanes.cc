#include "transport/send_lanes.h"

#include "base/generated/constants.h"

namespace hearth {
namespace {

SendLane laneOf(const SendItem& item) {
  if (!item.hasPayload()) return SendLane::kSmall;
  if (item.requestClass != RequestClass::kDemand) return SendLane::kBackground;
  const bool small = item.source.empty() && item.payload.size() <= kBlockBytes;
  return small ? SendLane::kSmall : SendLane::kDemand;
}

}  // namespace

void SendLanes::push(SendItem item) {
  Items& lane = of(laneOf(item));
  lane.push_back(std::move(item));
}

std::array<SendLane, 3> SendLanes::order() const {
  using enum SendLane;
  const bool yields = turnsOfDemand_ >= kTurnsOfDemand;
  const SendLane first = yields ? kBackground : kDemand, second = yields ? kDemand : kBackground;
  if (smallWasLast_) return {first, second, kSmall};
  return {kSmall, first, second};
}

void SendLanes::hadTurn(SendLane lane) {
  smallWasLast_ = lane == SendLane::kSmall;
  if (lane == SendLane::kBackground) turnsOfDemand_ = 0;
  if (lane == SendLane::kDemand && turnsOfDemand_ < kTurnsOfDemand) ++turnsOfDemand_;
}

std::optional<SendLanes::Position> SendLanes::find(std::uint64_t requestId) {
  return next([requestId](const SendItem& item) {
    return item.requestId == requestId && item.hasPayload();
  });
}

SendItem* SendLanes::find(const LentPayload& lent) {
  const auto found = next([&lent](const SendItem& item) { return item.lent.get() == &lent; });
  return found ? &*found->item : nullptr;
}

SendItem SendLanes::take(Position position) {
  SendItem item = std::move(*position.item);
  of(position.lane).erase(position.item);
  return item;
}

std::size_t SendLanes::size() const {
  return lanes_[0].size() + lanes_[1].size() + lanes_[2].size();
}

void SendLanes::clear() {
  for (Items& items : lanes_) items.clear();
}

}  // namespace hearth
