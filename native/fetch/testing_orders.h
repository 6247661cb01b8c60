// Takes all orders of steps, one after the other, and turns of a reactor between them. For tests.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <vector>

#include "reactor/reactor.h"

namespace hearth::testing_support {

// Resumes in the reactor's next turn, after all that is posted now.
struct NextTurn final : Posted {  // NOLINT(cppcoreguidelines-virtual-class-destructor): on stacks
  explicit NextTurn(Reactor& target) : reactor(target) {}
  Reactor& reactor;
  std::coroutine_handle<> awaiter;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    awaiter = handle;
    reactor.post(*this);
  }
  void await_resume() const noexcept {}
  void run() override { awaiter.resume(); }
};

// Chooses the actor that takes the next step, such that each order comes once (depth-first search).
// After a stall of the machine other actors may be able to go on than before, as the memory tier
// takes chunks back from slow peers by time; the search goes on from there.
class Orders {
 public:
  [[nodiscard]] std::size_t choose(std::size_t count) {
    if (depth_ == choices_.size()) choices_.push_back({0, count});
    if (Choice& known = choices_[depth_]; known.count != count) {
      known = {std::min(known.chosen, count - 1), count};
      choices_.resize(depth_ + 1);
    }
    return choices_[depth_++].chosen;
  }
  // Begins the next order; false: all have been taken.
  [[nodiscard]] bool next() {
    depth_ = 0;
    while (!choices_.empty() && choices_.back().chosen + 1 == choices_.back().count)
      choices_.pop_back();
    if (choices_.empty()) return false;
    ++choices_.back().chosen;
    return true;
  }

 private:
  struct Choice {
    std::size_t chosen, count;
  };
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
};

}  // namespace hearth::testing_support
