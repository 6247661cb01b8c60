#include "origin/fair_permits.h"

#include <algorithm>
#include <tuple>

namespace hearth {

void FairPermits::Waiter::await_suspend(std::coroutine_handle<> handle) {
  awaiter = handle;
  permits.owners_[owner].waiting.push_back(this);
}

bool FairPermits::tryTake(const std::string& owner) {
  // While anybody waits nothing is free.
  if (full()) return false;
  --free_;
  Owner& taking = owners_[owner];
  ++taking.held;
  taking.served = ++turn_;
  return true;
}

void FairPermits::release(const std::string& owner) {
  const auto known = owners_.find(owner);
  --known->second.held;
  ++free_;
  serve();
  if (known->second.held == 0 && known->second.waiting.empty()) owners_.erase(known);
}

void FairPermits::resize(std::size_t permits) {
  free_ += static_cast<std::int64_t>(permits) - permits_;
  permits_ = static_cast<std::int64_t>(permits);
  serve();
}

bool FairPermits::wantedByOther(const std::string& owner) const {
  return std::any_of(owners_.begin(), owners_.end(), [&](const auto& each) {
    return each.first != owner && !each.second.waiting.empty();
  });
}

void FairPermits::serve() {
  while (free_ > 0) {
    Owner* next = nullptr;
    for (auto& [name, each] : owners_) {
      if (each.waiting.empty()) continue;
      const bool before =
          next == nullptr || std::tie(each.held, each.served) < std::tie(next->held, next->served);
      if (before) next = &each;
    }
    if (next == nullptr) return;
    Waiter* const waiter = next->waiting.front();
    next->waiting.pop_front();
    --free_;
    ++next->held;
    next->served = ++turn_;
    reactor_.resumeSoon(waiter->awaiter);
  }
}

}  // namespace hearth
