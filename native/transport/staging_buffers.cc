#include "transport/staging_buffers.h"

#include <algorithm>
#include <utility>

#include "base/generated/constants.h"

namespace hearth {

Result<std::unique_ptr<StagingBuffers>> StagingBuffers::create(Reactor& reactor,
                                                               std::shared_ptr<RdmaDevice> device) {
  std::unique_ptr<StagingBuffers> made(new StagingBuffers(reactor, std::move(device)));
  auto first = RegisteredPool::create(made->device_, kPerPool, kChunkBytes);
  if (!first.ok()) return first.error();
  made->pools_.push_back(std::move(*first));
  return made;
}

bool StagingBuffers::mayHaveMore(const std::string& peer) const {
  const auto known = byPeer_.find(peer);
  return known == byPeer_.end() || known->second < kPerPeer;
}

std::shared_ptr<RegisteredPool> StagingBuffers::poolWithRoom() const {
  const auto found = std::ranges::find_if(pools_, &RegisteredPool::hasRoom);
  return found == pools_.end() ? nullptr : *found;
}

MemorySlice StagingBuffers::take(RegisteredPool& pool, const std::string& peer) {
  ++byPeer_[peer];
  ++inUse_;
  return pool.take(kChunkBytes, [this, peer] {
    const auto known = byPeer_.find(peer);
    if (--known->second == 0) byPeer_.erase(known);
    --inUse_;
    changed_.set();
  });
}

Task<void> StagingBuffers::grow() {
  isGrowing_ = true;
  auto pin = [device = device_] { return RegisteredPool::create(device, kPerPool, kChunkBytes); };
  auto pinned = co_await reactor_.offload(pin);
  isGrowing_ = false;
  isRefused_ = !pinned.ok();
  if (pinned.ok()) pools_.push_back(std::move(*pinned));
  changed_.set();
}

Task<Result<MemorySlice>> StagingBuffers::acquire(std::string peer, Interest interest) {
  while (interest.lives()) {
    if (mayHaveMore(peer)) {
      if (const auto pool = poolWithRoom()) co_return take(*pool, peer);
      if (!isGrowing_ && !isRefused_ && pools_.size() < kPools) {
        Task<void> growing = grow();
        co_await growing;
        continue;
      }
    }
    changed_.reset();
    co_await changed_.waitUntil(interest.until());
  }
  co_return Error{ErrorCode::kCancelled, "nobody waits for the answer any more"};
}

}  // namespace hearth
