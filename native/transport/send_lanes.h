// Orders the items that a connection has to send. Three lanes, each first come, first served:
//
//   - small: frames without a payload, and answers of at most a block that a reader waits for
//   - demand: other answers that a reader waits for
//   - background: answers for read-ahead or repair
//
// Large items go a slice at a time, and the order is looked at again after each slice. So a small
// answer waits for the slice that is being sent and for one more: the lanes of large items have a
// turn after each turn of the small lane, so that they never starve. Demand has all but one in
// kTurnsOfDemand + 1 of these turns while both wait. Pure: not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>

#include "transport/send_item.h"

namespace hearth {

enum class SendLane : std::uint8_t { kSmall, kDemand, kBackground };

class SendLanes {
 public:
  using Items = std::list<SendItem>;
  struct Position {
    SendLane lane;
    Items::iterator item;
  };
  // Turns of demand between two of the background, when both wait.
  static constexpr int kTurnsOfDemand = 7;

  void push(SendItem item);
  // Puts the item back at the head of its lane, between two of its slices.
  void putBack(SendLane lane, SendItem item) { of(lane).push_front(std::move(item)); }
  // The item whose turn it is among those for which `ready` is true. Calls `ready` in the order in
  // which items would go; it may change the item that it gets.
  template <class Ready>
  [[nodiscard]] std::optional<Position> next(Ready ready);
  // Notes that `lane` has had a turn.
  void hadTurn(SendLane lane);
  // The item with a payload that answers the request.
  [[nodiscard]] std::optional<Position> find(std::uint64_t requestId);
  // The item whose payload is `lent`.
  [[nodiscard]] SendItem* find(const LentPayload& lent);
  [[nodiscard]] SendItem take(Position position);

  [[nodiscard]] Items& of(SendLane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] std::size_t size() const;
  template <class Each>
  void forEach(Each each) {
    for (Items& items : lanes_) {
      for (SendItem& item : items) each(item);
    }
  }
  void clear();

 private:
  [[nodiscard]] std::array<SendLane, 3> order() const;

  std::array<Items, 3> lanes_;
  bool smallWasLast_ = false;
  int turnsOfDemand_ = 0;  // since background had a turn
};

template <class Ready>
std::optional<SendLanes::Position> SendLanes::next(Ready ready) {
  for (const SendLane lane : order()) {
    Items& items = of(lane);
    for (auto item = items.begin(); item != items.end(); ++item) {
      if (ready(*item)) return Position{lane, item};
    }
  }
  return std::nullopt;
}

}  // namespace hearth
