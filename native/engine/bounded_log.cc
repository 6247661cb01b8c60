#include "engine/bounded_log.h"

#include <atomic>
#include <memory>
#include <utility>

namespace hearth {

EventSink withBoundedLog(EventSink events, std::size_t most) {
  struct Waiting {
    std::atomic<std::size_t> lines{0};
    std::atomic<std::uint64_t> leftOut{0};
  };
  const auto waiting = std::make_shared<Waiting>();
  return [events = std::move(events), most, waiting](EngineEvent event) {
    if (event.kind != EngineEvent::Kind::kLog) return events(std::move(event));
    if (waiting->lines.fetch_add(1) >= most) {
      waiting->lines.fetch_sub(1);
      waiting->leftOut.fetch_add(1);
      return;
    }
    event.slot = std::shared_ptr<void>(nullptr, [waiting](void*) { --waiting->lines; });
    if (const std::uint64_t leftOut = waiting->leftOut.exchange(0)) {
      event.fields["lines_left_out"] = std::to_string(leftOut);
    }
    events(std::move(event));
  };
}

}  // namespace hearth
