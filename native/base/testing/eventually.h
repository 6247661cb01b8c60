// Waiting in tests. Machines are busy with other things: the limit of time only ends a test that
// hangs.
#pragma once

#include <chrono>
#include <thread>

namespace hearth {

// A test that waits longer hangs.
inline constexpr std::chrono::minutes kHang{5};

// Blocks the calling thread until `condition`, which it asks every five milliseconds; false after
// kHang.
template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kHang;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace hearth
