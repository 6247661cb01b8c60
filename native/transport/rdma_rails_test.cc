// Several ports between two agents: they share reads, and reads go on when a port, a path or an
// endpoint goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma_test_pair.h"

namespace hearth {
namespace {

using ::testing::HasSubstr;

class RdmaRailsTest : public RdmaPair {
 protected:
  void startTwo() {
    start({{.name = "a0", .address = 1}, {.name = "a1", .address = 3}},
          {{.name = "b0", .address = 2}, {.name = "b1", .address = 4}});
    ASSERT_TRUE(connectsAll());
  }
};

TEST_F(RdmaRailsTest, AllPortsShareReads) {
  startTwo();
  EXPECT_EQ(a_->statisticsOf("b").rdma, "a0/1, a1/1");
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(read(kPlain).ok());
    const auto all = rails();
    return all[0].bytesReceived > kChunkBytes && all[1].bytesReceived > kChunkBytes;
  }));
  for (const RailStatistics& rail : rails()) {
    EXPECT_GE(rail.requests, 1u);
    EXPECT_EQ(rail.latency.total(), rail.requests);
    EXPECT_EQ(rail.retries + rail.pauses + rail.failures, 0u);
  }
}

TEST_F(RdmaRailsTest, OnePortOfAPeerServesTwo) {
  start({{.name = "a0", .address = 1}, {.name = "a1", .address = 3}});
  ASSERT_TRUE(connectsAll());
  readMany(4);
}

TEST_F(RdmaRailsTest, APortThatGoesDownIsPausedAndComesBack) {
  startTwo();
  fabric_.setLink(1, false);
  EXPECT_TRUE(a_->eventually("b", [this](const PeerStatistics&) {
    EXPECT_TRUE(read(kPlain).ok());
    return !rails()[0].usable;
  }));
  EXPECT_TRUE(a_->eventually("b", [](const PeerStatistics& of) { return of.rdma == "a1/1"; }));
  EXPECT_THAT(rails()[0].error, HasSubstr("has gone down"));
  EXPECT_EQ(rails()[0].pauses, 1u);
  readMany(4);
  fabric_.setLink(1, true);
  EXPECT_TRUE(connectsAll());
  EXPECT_EQ(a_->statisticsOf("b").rdma, "a0/1, a1/1");
}

TEST_F(RdmaRailsTest, APortOfThePeerThatGoesDownIsProbedUntilItIsBack) {
  startTwo();
  fabric_.setLink(4, false);
  for (int round = 0; round < 3; ++round) readMany(2);
  EXPECT_TRUE(a_->eventually("b", [this](const PeerStatistics& of) {
    EXPECT_TRUE(read(kPlain).ok());
    return of.rdma == "a0/1" && of.rdmaRails[1].failures >= 1;
  }));
  fabric_.setLink(4, true);
  EXPECT_TRUE(connectsAll());
}

TEST_F(RdmaRailsTest, SlicesOfAPathThatDiesUnseenGoElsewhere) {
  silence_ = kShortSilence;
  startTwo();
  {
    const DyingPath dying(fabric_, 2);
    readMany(8);
  }
  const auto all = rails();
  EXPECT_GE(all[0].failures + all[1].failures, 1u);
  EXPECT_GE(all[0].retries + all[1].retries, 1u);
  EXPECT_TRUE(connectsAll());
}

TEST_F(RdmaRailsTest, WithoutAnotherPortTheyGoOverTcp) {
  silence_ = kShortSilence;
  start();
  ASSERT_TRUE(connects());
  {
    const DyingPath dying(fabric_, 2);
    readMany(8);
  }
  EXPECT_GE(rails()[0].retries, 1u);
  EXPECT_TRUE(connects());
}

TEST_F(RdmaRailsTest, ADeviceThatDisappearsUnderLoadLosesNoRead) {
  silence_ = kShortSilence;
  startTwo();
  std::atomic<int> writes = 0;
  fabric_.judgeBy([&](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
    if (opcode == IBV_WR_RDMA_WRITE && ++writes == 3) fabric_.remove(1);
    return {};
  });
  readMany(8);
  fabric_.judgeBy({});
  EXPECT_TRUE(a_->eventually("b", [this](const PeerStatistics& of) {
    EXPECT_TRUE(read(kPlain).ok());
    return of.rdma == "a1/1";
  }));
}

TEST_F(RdmaRailsTest, AnIdleEndpointIsClosedOnBothSidesAndMadeAgain) {
  idle_ = 20ms;
  start();
  const std::size_t before = fabric_.objects();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(eventually([&] {
      EXPECT_TRUE(read(kPlain, kBlockBytes).ok());
      return rails()[0].idleCloses > static_cast<std::uint64_t>(round) || rails()[0].usable;
    }));
    EXPECT_TRUE(a_->eventually("b", [&](const PeerStatistics& of) {
      return of.rdma.empty() && of.rdmaRails[0].idleCloses > static_cast<std::uint64_t>(round);
    }));
    EXPECT_TRUE(eventually([&] { return fabric_.objects() == before; }));
  }
  EXPECT_EQ(rails()[0].failures, 0u);
  EXPECT_EQ(a_->statisticsOf("b").rdmaError, "");
}

}  // namespace
}  // namespace hearth
