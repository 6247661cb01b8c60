#include "engine/bounded_log.h"

#include <atomic>
#include <memory>
#include <utility>

namespace hearth {

Ask withBoundedLog(Ask ask, std::size_t most) {
  struct Waiting {
    std::atomic<std::size_t> lines{0};
    std::atomic<std::uint64_t> leftOut{0};
  };
  const auto waiting = std::make_shared<Waiting>();
  return [ask = std::move(ask), most, waiting](Question question) {
    if (question.kind != Question::Kind::kLog) return ask(std::move(question));
    if (waiting->lines.fetch_add(1) >= most) {
      waiting->lines.fetch_sub(1);
      waiting->leftOut.fetch_add(1);
      return;
    }
    question.place = std::shared_ptr<void>(nullptr, [waiting](void*) { --waiting->lines; });
    if (const std::uint64_t leftOut = waiting->leftOut.exchange(0)) {
      question.fields["lines_left_out"] = std::to_string(leftOut);
    }
    ask(std::move(question));
  };
}

}  // namespace hearth
