// Registered buffers of one shard and port for copies of answers whose bytes the device does not
// know. Each peer has a quota, so a peer that takes its answers slowly holds its own buffers and
// leaves the others'. On the reactor's thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "verbs/device.h"
#include "verbs/registered_pool.h"

namespace hearth {

class StagingBuffers {
 public:
  static constexpr std::size_t kPerPeer = 2;
  // Buffers come in pools of so many, of a chunk each. The first pool is there from the beginning;
  // others follow when so many peers are answered at a time, and stay.
  static constexpr std::size_t kPerPool = 2;
  static constexpr std::size_t kPools = 16;

  // Pins the first pool. kOutOfSpace: the device may not pin so much. `reactor` must remain live
  // while this object is used.
  [[nodiscard]] static Result<std::unique_ptr<StagingBuffers>> create(
      Reactor& reactor, std::shared_ptr<RdmaDevice> device);

  // Waits until `peer` holds less than its quota and a buffer is free. The result is the whole
  // buffer, which comes back when its owner goes, on this thread and while this object lives.
  // kCancelled: the interest, and with it the asker's timeout, ended before.
  [[nodiscard]] Task<Result<MemorySlice>> acquire(std::string peer, Interest interest);
  // Lets those that wait see that their interest may have ended.
  void wake() { changed_.set(); }
  // Buffers that are in use now.
  [[nodiscard]] std::size_t inUse() const { return inUse_; }

 private:
  StagingBuffers(Reactor& reactor, std::shared_ptr<RdmaDevice> device)
      : reactor_(reactor), device_(std::move(device)), changed_(reactor) {}
  [[nodiscard]] bool mayHaveMore(const std::string& peer) const;
  [[nodiscard]] std::shared_ptr<RegisteredPool> poolWithRoom() const;
  [[nodiscard]] MemorySlice take(RegisteredPool& pool, const std::string& peer);
  // Pins one more pool on another thread.
  [[nodiscard]] Task<void> grow();

  Reactor& reactor_;
  const std::shared_ptr<RdmaDevice> device_;
  std::vector<std::shared_ptr<RegisteredPool>> pools_;
  std::map<std::string, std::size_t> byPeer_;  // buffers of peers that hold some
  std::size_t inUse_ = 0;
  Event changed_;  // a buffer came back, or an interest ended
  bool isGrowing_ = false;
  bool isRefused_ = false;  // the device may pin no more
};

}  // namespace hearth
