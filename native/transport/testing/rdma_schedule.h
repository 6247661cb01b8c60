// Reads of one agent from another over two RDMA ports each, under one random schedule of faults
// after the other. Whatever fails, each read ends with its own bytes, over another port or TCP. For
// tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>

#include "transport/rdma_test_pair.h"

namespace hearth {

class RdmaSchedules : public RdmaPair {
 protected:
  // The rail gives up a path that is held for longer.
  static constexpr Clock::duration kSilence = 20ms;

  void startTwo() {
    silence_ = kSilence;
    start({{.name = "a0", .address = 1}, {.name = "a1", .address = 3}},
          {{.name = "b0", .address = 2}, {.name = "b1", .address = 4}});
    ASSERT_TRUE(connectsAll());
  }
  void run(std::uint64_t firstSeed, std::uint64_t seeds) {
    for (std::uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
      runOne(seed);
      ASSERT_FALSE(HasFailure()) << "seed " << seed;
    }
    fabric_.judgeBy({});
    fabric_.judgePostsBy({});
    EXPECT_TRUE(connectsAll());
    EXPECT_GT(failed_, 0u);
  }

 private:
  struct Range {
    std::uint64_t offset;
    std::shared_ptr<MemoryRegion> memory;
  };

  void runOne(std::uint64_t seed) {
    revive();
    random_.seed(seed);
    faults_ = 2 + pick(40);
    fabric_.judgeBy([this](std::uint32_t, ibv_wr_opcode) { return judge(); });
    fabric_.judgePostsBy(
        [this](std::uint32_t, ibv_wr_opcode) { return pick(2 * faults_) == 0 ? ENOMEM : 0; });
    std::vector<Range> ranges(1 + pick(6));
    for (Range& range : ranges) {
      const std::uint64_t blocks = 1 + pick(8);
      range.offset = pick(static_cast<unsigned>(kChunkBytes / kBlockBytes - blocks)) * kBlockBytes;
      range.memory = *MemoryRegion::allocate(blocks * kBlockBytes);
      for (const std::shared_ptr<RdmaDevice>& port : portsOfA_)
        ASSERT_TRUE(range.memory->registrationWith(port).ok());
    }
    disturb();
    failed_ += a_->await([&] { return readAll(*a_, ranges); });
    for (const std::uint8_t address : {1, 2, 3, 4}) fabric_.setLink(address, true);
    fabric_.resume();
    for (const Range& range : ranges) {
      const auto expected =
          std::span(b_->handler->chunk).subspan(range.offset, range.memory->size());
      EXPECT_TRUE(std::ranges::equal(range.memory->bytes(), expected)) << range.offset;
    }
  }
  // A failed path is paused for longer each time; a port that goes down and comes back begins anew.
  void revive() {
    fabric_.judgeBy({});
    fabric_.judgePostsBy({});
    if (std::ranges::all_of(rails(), &RailStatistics::usable)) return;
    for (const std::uint8_t address : {1, 3}) fabric_.setLink(address, false);
    const auto isDown = [](const RailStatistics& rail) {
      return rail.error.find("has gone down") != std::string::npos;
    };
    EXPECT_TRUE(eventually([&] {
      EXPECT_TRUE(read(kPlain, kBlockBytes).ok());
      return std::ranges::all_of(rails(), isDown);
    }));
    for (const std::uint8_t address : {1, 3}) fabric_.setLink(address, true);
    EXPECT_TRUE(connectsAll());
  }
  // From the threads of both agents.
  unsigned pick(unsigned below) {
    const std::lock_guard lock(mutex_);
    return static_cast<unsigned>(random_() % below);
  }
  Fabric::Verdict judge() {
    if (pick(2 * faults_) == 0) return {.held = true};
    if (pick(faults_) != 0) return {};
    constexpr ibv_wc_status kFaults[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR,
                                         IBV_WC_LOC_PROT_ERR, IBV_WC_GENERAL_ERR};
    return {.status = kFaults[pick(std::size(kFaults))]};
  }
  void disturb() {
    if (pick(4) == 0) fabric_.setLink(static_cast<std::uint8_t>(1 + pick(4)), false);
  }

  // Returns how often an endpoint has failed meanwhile.
  static Task<std::uint64_t> readAll(TestNode& node, const std::vector<Range>& ranges) {
    const std::uint64_t before = failures(node);
    Gate gate(*node.reactor);
    for (const Range& range : ranges) gate.spawn(readOne(node, range));
    co_await gate.close();
    co_return failures(node) - before;
  }
  static std::uint64_t failures(TestNode& node) {
    std::uint64_t all = 0;
    for (const PeerStatistics& peer : node.transport->statistics()) all += peer.rdmaFailures;
    return all;
  }
  static Task<void> readOne(TestNode& node, Range range) {
    std::vector<std::uint32_t> checksums;
    Task<Status> reads = node.transport->read(
        "b", keyOf(kPlain), range.offset, MemorySlice{range.memory, 0, range.memory->size()},
        checksums, Clock::now() + kHang, RequestClass::kDemand);
    const Status status = co_await reads;
    EXPECT_TRUE(status.ok()) << status.error().message;
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::atomic<unsigned> faults_{1};
  std::uint64_t failed_ = 0;
};

}  // namespace hearth
