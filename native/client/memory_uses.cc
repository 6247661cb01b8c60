#include "client/memory_uses.h"

namespace hearth::gd2fs {

MemoryUses::Use MemoryUses::begin(const std::shared_ptr<MemoryUses>& uses) {
  {
    const std::lock_guard lock(uses->mutex_);
    ++uses->count_;
  }
  // Ends the use also when there is no memory for the pointer.
  return {uses.get(), [held = uses](const void*) { held->end(); }};
}

void MemoryUses::end() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) changed_.notify_all();
}

bool MemoryUses::awaitEnd(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return count_ == 0; };
  // A wait until the end of time would overflow.
  if (deadline == Clock::time_point::max()) {
    changed_.wait(lock, over);
    return true;
  }
  return changed_.wait_until(lock, deadline, over);
}

}  // namespace hearth::gd2fs
