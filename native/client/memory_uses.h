// Counts what may still touch memory that a program has registered: requests, and calls of a GPU's
// driver that their request has given up. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>

#include "base/clock.h"

namespace hearth::gd2fs {

class MemoryUses {
 public:
  // Ends when the last copy goes.
  using Use = std::shared_ptr<const void>;

  [[nodiscard]] static Use begin(const std::shared_ptr<MemoryUses>& uses);
  // Blocks until there is no use; false: there is one at the deadline.
  [[nodiscard]] bool awaitEnd(Clock::time_point deadline);

 private:
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

}  // namespace hearth::gd2fs
