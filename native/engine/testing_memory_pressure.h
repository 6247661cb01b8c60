// Fetches for readers that want all the memory of a shard, and more. For tests.
#pragma once

#include <vector>

#include "engine/shard.h"
#include "reactor/blocking_call.h"

namespace hearth::testing_cluster {

// Takes all memory of the shard as long as it lives. Used on a thread that is no shard's.
class MemoryPressure {
 public:
  explicit MemoryPressure(Shard& shard) : shard_(shard) {
    shard_.reactor->post([this] { shard_.gate->spawn(takeAll(*this)); });
  }
  ~MemoryPressure() { runOn(*shard_.reactor, end(*this)); }
  MemoryPressure(const MemoryPressure&) = delete;
  MemoryPressure& operator=(const MemoryPressure&) = delete;

 private:
  static Task<void> takeAll(MemoryPressure& self) {
    while (!self.ended_) {
      for (ChunkBuffer& each : co_await self.shard_.peerBuffers->acquire(Priority::kDemand, 1))
        self.taken_.push_back(std::move(each));
    }
    self.taken_.clear();
    self.gone_.set();
  }
  static Task<bool> end(MemoryPressure& self) {
    self.ended_ = true;
    self.taken_.clear();
    co_await self.gone_.wait();
    co_return true;
  }

  Shard& shard_;
  bool ended_ = false;
  std::vector<ChunkBuffer> taken_;
  Event gone_{*shard_.reactor};
};

}  // namespace hearth::testing_cluster
