#include "transport/write_order.h"

#include <algorithm>
#include <optional>

namespace hearth {

WriteOrder::Place::Place(WriteOrder& order, std::string node, const WriteRequest& request,
                         OnLoss onLoss)
    : order_(order),
      chunk_(order.chunks_
                 .try_emplace(std::pair(request.key, request.offset / kChunkBytes), order.reactor_)
                 .first),
      begin_(request.offset),
      end_(request.offset + request.length),
      version_{request.generation, std::move(node)},
      onLoss_(std::move(onLoss)),
      position_(chunk_->second.places.insert(chunk_->second.places.end(), this)) {}

WriteOrder::Place::~Place() {
  chunk_->second.places.erase(position_);
  chunk_->second.changed.set();
  if (chunk_->second.places.empty()) order_.chunks_.erase(chunk_);
}

std::vector<WriteOrder::Place*> WriteOrder::Place::before() const {
  std::vector<Place*> found;
  for (Place* const other : chunk_->second.places) {
    if (other == this) break;
    if (other->begin_ < end_ && begin_ < other->end_) found.push_back(other);
  }
  return found;
}

void WriteOrder::Place::lose(bool pressing) {
  if (lost_ && !pressing) return;
  // A write that waits leaves at once.
  if (!std::exchange(lost_, true)) chunk_->second.changed.set();
  onLoss_(pressing);
}

// Counts one waiting write of a node.
class WriteOrder::Waiting {
 public:
  Waiting(WriteOrder& order, const std::string& node)
      : order_(order), count_(order.waiting_.try_emplace(node, 0).first) {
    ++count_->second;
  }
  ~Waiting() {
    if (--count_->second == 0) order_.waiting_.erase(count_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  [[nodiscard]] bool tooMany() const { return count_->second > kWritesWaitingPerNode; }

 private:
  WriteOrder& order_;
  const std::map<std::string, std::size_t>::iterator count_;
};

Error WriteOrder::lost() {
  return {ErrorCode::kConflict, "a newer write of these bytes is on its way"};
}

Task<Result<std::unique_ptr<WriteOrder::Place>>> WriteOrder::enter(std::string node,
                                                                   WriteRequest request,
                                                                   Interest interest,
                                                                   OnLoss onLoss) {
  auto place = std::make_unique<Place>(*this, std::move(node), request, std::move(onLoss));
  Event& changed = place->chunk_->second.changed;
  const Clock::time_point pressFrom = Clock::now() + grace_;
  std::optional<Waiting> waiting;
  for (;;) {
    const std::vector<Place*> before = place->before();
    const bool older = std::ranges::any_of(
        before, [&](const Place* other) { return other->version_ > place->version_; });
    if (older || place->lost_) co_return lost();
    if (!interest.lives())
      co_return Error{ErrorCode::kCancelled, "the write is no longer waited for"};
    if (before.empty()) co_return place;
    if (!waiting) waiting.emplace(*this, place->version_.node);
    if (waiting->tooMany())
      co_return Error{ErrorCode::kUnavailable,
                      place->version_.node + " has " + std::to_string(kWritesWaitingPerNode) +
                          " writes here that wait for others to the same bytes; try again when "
                          "some of them have ended"};
    for (Place* const other : before) other->lose(Clock::now() >= pressFrom);
    changed.reset();
    co_await changed.waitUntil(Clock::now() + grace_);
  }
}

}  // namespace hearth
