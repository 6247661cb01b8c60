#pragma once

#include <cstdint>
#include <utility>

#include "reactor/synchronization.h"

namespace hearth {

// A run's place among those that read from peers in the background.
class PeerPlace {
 public:
  explicit PeerPlace(Semaphore& places) : places_(places) {}
  ~PeerPlace() { leave(); }
  PeerPlace(const PeerPlace&) = delete;
  PeerPlace& operator=(const PeerPlace&) = delete;

  [[nodiscard]] bool held() const { return chunks_ != 0; }
  [[nodiscard]] Task<void> take(std::uint32_t chunks) {
    co_await places_.acquire(chunks);
    chunks_ = chunks;
  }
  void leave() { places_.release(std::exchange(chunks_, 0)); }

 private:
  Semaphore& places_;
  std::uint32_t chunks_ = 0;
};

}  // namespace hearth
