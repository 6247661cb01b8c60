#include "fetch/chunk_flight.h"

namespace hearth {

bool ChunkFlight::enter(State next) {
  if (isOver() && (next != State::kEnded || hasEnded())) return false;
  if (next == state_) return true;
  state_ = next;
  if (isOver()) landed_.set();
  if (hasEnded()) ended_.set();
  if (const auto changed = std::exchange(change_, nullptr)) changed->set();
  offer(nullptr);
  return true;
}

bool ChunkFlight::end(Reason reason, Status status) {
  if (hasEnded()) return false;
  reason_ = reason;
  status_ = std::move(status);
  return enter(State::kEnded);
}

void ChunkFlight::offer(std::shared_ptr<ChunkArrival> arrival) {
  if (const auto former = std::exchange(arrival_, std::move(arrival))) former->end();
}

std::shared_ptr<Event> ChunkFlight::change() {
  if (change_ == nullptr) change_ = std::make_shared<Event>(reactor_);
  return change_;
}

}  // namespace hearth
