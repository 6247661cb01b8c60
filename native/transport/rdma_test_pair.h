// Two agents, a and b, with RDMA ports on one fabric, of which a reads from b. For tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/test_node.h"
#include "verbs/device.h"
#include "verbs/testing/in_process_verbs.h"

namespace hearth {

using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

// For tests in which a path dies unseen.
inline constexpr Clock::duration kShortSilence = 100ms;

class RdmaPair : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<RdmaDevice>> devices(std::vector<PortOptions> ports) {
    const std::size_t count = ports.size();
    Devices found = openDevices(std::make_shared<InProcessVerbs>(fabric_, std::move(ports)));
    EXPECT_EQ(found.usable.size(), count);
    return std::move(found.usable);
  }
  std::unique_ptr<TestNode> node(const std::string& name,
                                 std::vector<std::shared_ptr<RdmaDevice>> ports,
                                 std::vector<std::shared_ptr<MemoryRegion>> arena = {}) {
    TransportOptions options = TestNode::optionsOf(name);
    options.rdma = std::move(ports);
    options.arena = std::move(arena);
    // A machine that is busy must not be taken for a path that is dead, nor for a dead peer: an
    // RDMA endpoint ends with the TCP connection that it was made over.
    options.rdmaSilence = silence_;
    options.rdmaHold = hold_;
    options.idleProbe = kHang;
    options.rdmaIdle = idle_;
    return std::make_unique<TestNode>(std::move(options));
  }
  void start(std::vector<PortOptions> a = {{.name = "a0", .address = 1}},
             std::vector<PortOptions> b = {{.name = "b0", .address = 2}}) {
    portsOfA_ = devices(std::move(a));
    a_ = node("a", portsOfA_);
    b_ = node("b", devices(std::move(b)));
    a_->setPeers({b_->identity()});
    b_->setPeers({a_->identity()});
    into_ = *MemoryRegion::allocate(kChunkBytes);
    for (const std::shared_ptr<RdmaDevice>& port : portsOfA_)
      ASSERT_TRUE(into_->registrationWith(port).ok());
  }
  void TearDown() override {
    fabric_.judgeBy({});
    a_.reset();
    b_.reset();
    into_.reset();
    portsOfA_.clear();
    EXPECT_EQ(fabric_.objects(), 0u);
  }

  // Reads [0, bytes) of the chunk and compares it.
  Status read(Behaviour behaviour, std::uint64_t bytes = kChunkBytes,
              Clock::duration timeout = kHang) {
    std::ranges::fill(into_->bytes(), std::byte{0});
    std::vector<std::uint32_t> checksums;
    const Status status = a_->await([&] {
      return a_->transport->read("b", keyOf(behaviour), 0, MemorySlice{into_, 0, bytes}, checksums,
                                 Clock::now() + timeout, RequestClass::kDemand);
    });
    if (status.ok()) {
      const auto got = into_->bytes().first(bytes);
      EXPECT_TRUE(std::ranges::equal(got, std::span(b_->handler->chunk).first(bytes)));
      EXPECT_EQ(checksums, crc32cOfBlocks(got, kBlockBytes));
    }
    return status;
  }
  // Reads until RDMA carries them.
  bool connects() {
    return eventually([&] {
      EXPECT_TRUE(read(kPlain, kBlockBytes).ok());
      return !a_->statisticsOf("b").rdma.empty();
    });
  }

  // An agent that reads, its ports, and the key that it reads.
  struct Reader {
    TestNode* node;
    std::vector<std::shared_ptr<RdmaDevice>> ports;
    Behaviour behaviour = kPlain;
  };
  // Reads the first `bytes` of `count` chunks at once, each into registered memory of its own, and
  // compares them. Returns the time of the slowest.
  Clock::duration readMany(std::size_t count, std::size_t bytes = kChunkBytes) {
    return readMany(count, bytes, {a_.get(), portsOfA_});
  }
  Clock::duration readMany(std::size_t count, std::size_t bytes, const Reader& reader) {
    std::vector<std::shared_ptr<MemoryRegion>> regions;
    for (std::size_t at = 0; at < count; ++at) {
      regions.push_back(*MemoryRegion::allocate(bytes));
      for (const std::shared_ptr<RdmaDevice>& port : reader.ports)
        EXPECT_TRUE(regions.back()->registrationWith(port).ok());
    }
    const Clock::duration slowest = reader.node->await([&] { return readAll(reader, regions); });
    for (const auto& region : regions)
      EXPECT_TRUE(std::ranges::equal(region->bytes(), std::span(b_->handler->chunk).first(bytes)));
    return slowest;
  }
  [[nodiscard]] std::vector<RailStatistics> rails() { return a_->statisticsOf("b").rdmaRails; }
  // Reads until all ports carry bytes.
  bool connectsAll() {
    return eventually([&] {
      EXPECT_TRUE(read(kPlain, kBlockBytes).ok());
      return std::ranges::all_of(rails(), &RailStatistics::usable);
    });
  }

  Fabric fabric_;
  Clock::duration silence_ = kHang, hold_ = kHang;
  Clock::duration idle_ = Clock::duration::max();
  std::vector<std::shared_ptr<RdmaDevice>> portsOfA_;
  std::unique_ptr<TestNode> a_, b_;
  std::shared_ptr<MemoryRegion> into_;

 private:
  static Task<void> readOne(const Reader& reader, std::shared_ptr<MemoryRegion> region,
                            Clock::duration& slowest) {
    const Clock::time_point began = Clock::now();
    std::vector<std::uint32_t> checksums;
    Task<Status> reads = reader.node->transport->read(
        "b", keyOf(reader.behaviour), 0, MemorySlice{region, 0, region->size()}, checksums,
        began + kHang, RequestClass::kDemand);
    const Status status = co_await reads;
    EXPECT_TRUE(status.ok()) << status.error().message;
    slowest = std::max(slowest, Clock::now() - began);
  }
  static Task<Clock::duration> readAll(const Reader& reader,
                                       const std::vector<std::shared_ptr<MemoryRegion>>& regions) {
    Clock::duration slowest{};
    Gate gate(*reader.node->reactor);
    for (const auto& region : regions) gate.spawn(readOne(reader, region, slowest));
    co_await gate.close();
    co_return slowest;
  }
};

// A path that dies and tells nobody: from some write on, the messages of one queue pair are neither
// sent nor refused.
class DyingPath {
 public:
  // The queue pair that writes first is dead after `writes` of its writes.
  DyingPath(Fabric& fabric, int writes) : fabric_(fabric), left_(writes) {
    fabric.judgeBy([this](std::uint32_t pair, ibv_wr_opcode opcode) -> Fabric::Verdict {
      if (opcode == IBV_WR_RDMA_WRITE && pair_ == 0) pair_ = pair;
      if (pair == pair_ && opcode == IBV_WR_RDMA_WRITE) --left_;
      return {.held = pair == pair_ && left_ < 0};
    });
  }
  ~DyingPath() { fabric_.judgeBy({}); }
  DyingPath(const DyingPath&) = delete;
  DyingPath& operator=(const DyingPath&) = delete;

 private:
  Fabric& fabric_;
  std::uint32_t pair_ = 0;
  int left_;
};

}  // namespace hearth
