// Two agents that read from each other over RDMA, on the fabric inside the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma_test_pair.h"

namespace hearth {
namespace {

class RdmaRailTest : public RdmaPair {};

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

// The steps of docs/design/rdma.md: the reader opens a window, asks and closes the window; the
// holder writes and answers in one chain, of which only the end is signalled.
TEST_F(RdmaRailTest, ASliceIsFiveWorkRequestsAndFourCompletions) {
  start();
  ASSERT_TRUE(connects());
  const Fabric::Counts before = fabric_.counts();
  constexpr std::uint64_t kSlices = 3;
  for (std::uint64_t slice = 0; slice < kSlices; ++slice) ASSERT_TRUE(read(kPlain, 1 << 20).ok());
  const Fabric::Counts after = fabric_.counts();
  EXPECT_EQ(after.requests - before.requests, 5 * kSlices);
  EXPECT_EQ(after.completions - before.completions, 4 * kSlices);
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
  // Messages are copied, so any memory will do.
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
