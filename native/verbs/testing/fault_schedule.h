// For tests: one random schedule of transfers and faults between two endpoints, and what must hold
// whatever happens.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <vector>

#include "verbs/testing/endpoint_pair.h"

namespace hearth::testing_verbs {

class FaultSchedule {
 public:
  explicit FaultSchedule(std::uint64_t seed) : random_(seed), pair_({.left = leftPort(seed)}) {
    into_ = pair_.memory(pair_.right, kParts * kPartBytes);
    faults_ = 4 + pick(60);
    // Window and connection are set up without faults.
    key_ = pair_.openWindow({into_, 0, into_->size()});
    pair_.fabric.judgeBy([this](std::uint32_t, ibv_wr_opcode) { return judge(); });
    pair_.fabric.judgePostsBy([this](std::uint32_t, ibv_wr_opcode) {
      return pick(faults_) == 0 ? (pick(2) == 0 ? ENOMEM : EINVAL) : 0;
    });
  }
  ~FaultSchedule() {
    pair_.fabric.judgeBy({});
    pair_.fabric.judgePostsBy({});
  }

  void run() {
    ASSERT_NE(key_, 0u);
    const unsigned rounds = 2 + pick(6);
    for (unsigned round = 0; round < rounds; ++round) {
      postBatch();
      disturb();
    }
    finish();
    for (const Slice& slice : slices_) check(slice);
  }

 private:
  static constexpr std::size_t kParts = 64, kPartBytes = 512;
  struct Slice {
    std::size_t part;
    std::vector<std::byte> expected;
    std::weak_ptr<MemoryRegion> memory;
    int settled = 0;
    ErrorCode outcome = ErrorCode::kOk;
  };

  static PortOptions leftPort(std::uint64_t seed) {
    return {.name = "left0", .address = 1, .sendRequests = seed % 3 == 0 ? 8 : 64, .pieces = 2};
  }
  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }

  Fabric::Verdict judge() {
    if (isCalm_) return {};
    if (isHolding_ || pick(faults_) == 0) {
      isHolding_ = true;
      return {.held = true};
    }
    if (pick(2 * faults_) != 0) return {};
    constexpr ibv_wc_status kFaults[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR,
                                         IBV_WC_LOC_PROT_ERR, IBV_WC_GENERAL_ERR,
                                         IBV_WC_WR_FLUSH_ERR};
    return {.status = kFaults[pick(std::size(kFaults))]};
  }

  // Each slice writes a part of its own, from memory that nobody but the endpoint keeps.
  void postBatch() {
    std::vector<std::unique_ptr<Transfer>> batch;
    for (unsigned left = 1 + pick(10); left != 0 && nextPart_ < kParts; --left) {
      auto from = pair_.memory(pair_.left, kPartBytes);
      fill(*from, random_());
      const std::size_t part = nextPart_++;
      const std::size_t index = slices_.size();
      slices_.push_back({part, {from->bytes().begin(), from->bytes().end()}, from});
      std::vector<MemorySlice> pieces;
      const std::size_t size = kPartBytes >> pick(3);
      for (std::size_t at = 0; at < kPartBytes; at += size) pieces.push_back({from, at, size});
      auto transfer = pair_.writing(MemoryVector(std::move(pieces)),
                                    into_->address() + part * kPartBytes, key_);
      transfer->settled = [this, index](const Status& status) {
        ++slices_[index].settled;
        slices_[index].outcome = status.code();
      };
      batch.push_back(std::move(transfer));
    }
    pair_.left.endpoint->post(std::move(batch));
  }

  void disturb() {
    switch (pick(16)) {
      case 0:
        pair_.left.endpoint->fail({ErrorCode::kDeadlineExceeded, "late"});
        break;
      case 1:
        pair_.right.endpoint->fail({ErrorCode::kDeadlineExceeded, "late"});
        break;
      case 2:
        pair_.fabric.setLink(pick(2) == 0 ? 1 : 2, false);
        break;
      case 3:
        pair_.fabric.setLink(1, true);
        pair_.fabric.setLink(2, true);
        break;
      case 4:
        pair_.fabric.forgeCompletion(pair_.left.endpoint->address().queuePair, random_() >> 1);
        break;
      case 5:
        if (pick(4) != 0) break;
        hasRemoved_ = true;
        pair_.fabric.remove(1);
        break;
      default:
        break;
    }
    if (pick(2) == 0) pair_.left.queue->poll(1 + pick(4));
    if (pick(3) == 0) resume();
  }

  void resume() {
    isHolding_ = false;
    pair_.fabric.resume();
    pair_.poll();
  }

  // Nothing is held any more; then the endpoint, whatever its state, lets go of everything.
  void finish() {
    isCalm_ = true;
    pair_.fabric.judgePostsBy({});
    resume();
    resume();
    // The owner of an endpoint hears of its device's end, and fails it.
    static_cast<void>(pair_.left.device->takeEvents());
    const bool isGone = hasRemoved_ && !pair_.left.device->usable();
    if (isGone) pair_.left.endpoint->fail({ErrorCode::kUnavailable, "the device is gone"});
    if (!isGone) {
      // A failed request was flushed.
      EXPECT_TRUE(pair_.left.endpoint->drained());
      EXPECT_LE(pair_.left.endpoint->counts().signalled, pair_.left.endpoint->counts().requests);
    }
    // A device that is gone tells nothing of what it has: the end of the endpoint settles it.
    pair_.window.reset();
    pair_.left.endpoint.reset();
  }

  void check(const Slice& slice) const {
    EXPECT_EQ(slice.settled, 1) << "part " << slice.part;
    EXPECT_TRUE(slice.memory.expired()) << "part " << slice.part;
    if (slice.outcome != ErrorCode::kOk) return;
    const auto arrived = into_->bytes().subspan(slice.part * kPartBytes, kPartBytes);
    EXPECT_TRUE(std::ranges::equal(arrived, slice.expected)) << "part " << slice.part;
  }

  std::mt19937_64 random_;
  EndpointPair pair_;
  std::shared_ptr<MemoryRegion> into_;
  std::uint32_t key_ = 0;
  unsigned faults_ = 0;
  bool isHolding_ = false, isCalm_ = false, hasRemoved_ = false;
  std::size_t nextPart_ = 0;
  std::vector<Slice> slices_;
};

}  // namespace hearth::testing_verbs
