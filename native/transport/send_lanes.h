// What a connection has to send, in the order in which it goes. Three lanes, each first come, first
// served:
//   small       frames without a payload, and answers of a block at most that a reader waits for
//   demand      what else a reader waits for
//   background  what is fetched ahead or repaired
// Large ones go a slice at a time, and after each slice the order is looked at again. So a small
// answer waits for the slice that is being sent and for one more: the lanes of the large ones have
// a turn after each turn of the small one, so that they are never starved. Of their turns demand
// has all but one in kTurnsOfDemand + 1 while both wait. Pure: not thread-safe.
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
  // At the head of its lane, where it was: between two of its slices.
  void putBack(SendLane lane, SendItem item) { of(lane).push_front(std::move(item)); }
  // The item whose turn it is among those that are `ready`, which is asked in the order in which
  // they come to pass. It may change the item that it is asked for.
  template <class Ready>
  [[nodiscard]] std::optional<Position> next(Ready ready);
  // That lane has had a turn.
  void hadTurn(SendLane lane);
  // The item of that request that has a payload.
  [[nodiscard]] std::optional<Position> find(std::uint64_t requestId);
  // The item whose payload is that one.
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
  int turnsOfDemand_ = 0;  // since the background had one
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
