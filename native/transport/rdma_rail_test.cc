// Two agents that read from each other over RDMA, on the fabric inside the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/test_node.h"
#include "verbs/device.h"
#include "verbs/testing/in_process_verbs.h"

namespace hearth {
namespace {

using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

// For tests in which a path dies unseen.
constexpr Clock::duration kShortSilence = 100ms;

class RdmaRailTest : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<Device>> devices(std::vector<PortOptions> ports) {
    const std::size_t count = ports.size();
    Devices found = openDevices(std::make_shared<InProcessVerbs>(fabric_, std::move(ports)));
    EXPECT_EQ(found.usable.size(), count);
    return std::move(found.usable);
  }
  std::unique_ptr<TestNode> node(const std::string& name,
                                 std::vector<std::shared_ptr<Device>> ports) {
    TransportOptions options = TestNode::optionsOf(name);
    if (!ports.empty()) {
      options.rdma = ports.front();
      options.furtherRdma.assign(ports.begin() + 1, ports.end());
    }
    // A machine that is busy must not be taken for a path that is dead.
    options.rdmaSilence = silence_;
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
    for (const std::shared_ptr<Device>& port : portsOfA_)
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

  // [0, bytes) of the chunk, compared.
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

  Fabric fabric_;
  Clock::duration silence_ = kHang;
  Clock::duration idle_ = Clock::duration::max();
  std::vector<std::shared_ptr<Device>> portsOfA_;
  std::unique_ptr<TestNode> a_, b_;
  std::shared_ptr<MemoryRegion> into_;
};

TEST_F(RdmaRailTest, ReadsAChunkIntoRegisteredMemory) {
  start();
  ASSERT_TRUE(connects());
  const PeerStatistics before = a_->statisticsOf("b");
  EXPECT_EQ(before.rdma, "a0/1");
  ASSERT_TRUE(read(kPlain).ok());
  const PeerStatistics after = a_->statisticsOf("b");
  EXPECT_EQ(after.rdmaBytesReceived - before.rdmaBytesReceived, kChunkBytes);
  EXPECT_LT(after.bytesReceived - before.bytesReceived, kBlockBytes);
}

TEST_F(RdmaRailTest, BothSidesReadFromEachOther) {
  start();
  ASSERT_TRUE(connects());
  ASSERT_TRUE(b_->read("a", kPlain, 0, into_->bytes()).ok());
}

TEST_F(RdmaRailTest, ReadsIntoOtherMemoryOverTcp) {
  start();
  ASSERT_TRUE(connects());
  const std::uint64_t before = a_->statisticsOf("b").rdmaRequests;
  std::vector<std::byte> bytes(kChunkBytes);
  EXPECT_TRUE(a_->read("b", kPlain, 0, bytes).ok());
  EXPECT_EQ(a_->statisticsOf("b").rdmaRequests, before);
}

TEST_F(RdmaRailTest, AnswersErrorsOfTheHandler) {
  start();
  ASSERT_TRUE(connects());
  EXPECT_EQ(read(kAbsent).code(), ErrorCode::kTryElsewhere);
  EXPECT_EQ(read(kBadChecksum).code(), ErrorCode::kCorrupt);
  EXPECT_TRUE(read(kPlain).ok());
}

TEST_F(RdmaRailTest, AFailedEndpointSendsTheReadOverTcp) {
  silence_ = kShortSilence;
  start();
  ASSERT_TRUE(connects());
  fabric_.judgeBy([](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
    return {.status = opcode == IBV_WR_RDMA_WRITE ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS};
  });
  EXPECT_TRUE(read(kPlain).ok());
  fabric_.judgeBy({});
  EXPECT_TRUE(connects());
}

TEST_F(RdmaRailTest, ADeviceThatDisappearsSendsTheReadOverTcp) {
  silence_ = kShortSilence;
  start();
  ASSERT_TRUE(connects());
  fabric_.judgeBy([](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
    return {.held = opcode == IBV_WR_RDMA_WRITE};
  });
  fabric_.remove(1);
  EXPECT_TRUE(read(kPlain).ok());
}

TEST_F(RdmaRailTest, APeerWithoutRdmaIsReadOverTcp) {
  start({{.name = "a0", .address = 1}}, {});
  EXPECT_TRUE(read(kPlain).ok());
  EXPECT_TRUE(a_->eventually("b", [](const PeerStatistics& of) { return !of.rdmaError.empty(); }));
  EXPECT_TRUE(read(kPlain).ok());
}

TEST_F(RdmaRailTest, WithoutWindowsBytesComeInMessages) {
  start({{.name = "a0", .address = 1, .hasWindows = false}});
  ASSERT_TRUE(connects());
  const PeerStatistics before = a_->statisticsOf("b");
  ASSERT_TRUE(read(kPlain).ok());
  ASSERT_TRUE(read(kPlain, kChunkBytes - 777).ok());
  // These are copied, so any memory will do.
  std::vector<std::byte> bytes(kChunkBytes);
  EXPECT_TRUE(a_->read("b", kPlain, 0, bytes).ok());
  EXPECT_TRUE(std::ranges::equal(bytes, b_->handler->chunk));
  const PeerStatistics after = a_->statisticsOf("b");
  EXPECT_EQ(after.rdmaBytesReceived - before.rdmaBytesReceived, 3 * kChunkBytes - 777);
  EXPECT_LT(after.bytesReceived - before.bytesReceived, kBlockBytes);
  EXPECT_EQ(read(kAbsent).code(), ErrorCode::kTryElsewhere);
  EXPECT_EQ(read(kBadChecksum).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(read(kStuck, kBlockBytes, 50ms).code(), ErrorCode::kDeadlineExceeded);
  b_->post([this] { b_->handler->released.set(); });
  EXPECT_TRUE(read(kPlain).ok());
}

TEST_F(RdmaRailTest, ALateAnswerHarmsNoMemory) {
  start();
  ASSERT_TRUE(connects());
  EXPECT_EQ(read(kStuck, kBlockBytes, 50ms).code(), ErrorCode::kDeadlineExceeded);
  b_->post([this] { b_->handler->released.set(); });
  EXPECT_TRUE(read(kPlain).ok());
}

}  // namespace
}  // namespace hearth
