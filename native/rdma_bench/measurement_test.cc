// Both sides of a measurement, over the fabric inside the process and loopback TCP.
#include "rdma_bench/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "verbs/testing/in_process_verbs.h"

namespace hearth::rdma_bench {
namespace {

using ::testing::HasSubstr;
using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

class MeasurementTest : public ::testing::Test {
 protected:
  Result<Report> run(MeasuringOptions options = {}) {
    const auto here = std::make_shared<InProcessVerbs>(fabric_, std::vector{here_});
    const auto there = std::make_shared<InProcessVerbs>(fabric_, std::vector{there_});
    auto listener = Listener::bind("127.0.0.1:0");
    EXPECT_TRUE(listener.ok());
    std::thread serving([&] {
      const auto control = (*listener)->accept();
      EXPECT_TRUE(control.ok());
      served_ = serve(there, **control, {}, false);
    });
    auto control = Control::connect((*listener)->address());
    EXPECT_TRUE(control.ok());
    options.perSize = std::chrono::milliseconds(1);
    options.answers = 3;
    Result<Report> report = measure(here, **control, options);
    control->reset();
    serving.join();
    return report;
  }

  Fabric fabric_;
  PortOptions here_{.name = "here0", .address = 1}, there_{.name = "there0", .address = 2};
  Status served_;
};

TEST_F(MeasurementTest, ReportsEachSizeAndBothPorts) {
  const Result<Report> report = run({.sizes = {1, 4096, 100'000}});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(served_.ok()) << served_.error().message;
  EXPECT_EQ(report->here.device, "here0/1");
  EXPECT_EQ(report->there.device, "there0/1");
  EXPECT_NE(report->here.gid, report->there.gid);
  ASSERT_EQ(report->rows.size(), 3u);
  for (const Row& row : report->rows) {
    EXPECT_GT(row.bytesPerSecond, 0);
    EXPECT_GE(row.answers, 1u);
    EXPECT_GT(row.medianMicroseconds, 0);
  }
  EXPECT_EQ(report->rows[2].bytes, 100'000u);
  EXPECT_THAT(jsonOf(*report), HasSubstr("\"there\":{\"device\":\"there0/1\""));
}

TEST_F(MeasurementTest, SaysThatNothingArrives) {
  // Every packet of a message is lost.
  fabric_.judgeBy([](std::uint32_t, ibv_wr_opcode opcode) {
    return opcode == IBV_WR_SEND ? Fabric::Verdict{.status = IBV_WC_RETRY_EXC_ERR}
                                 : Fabric::Verdict{};
  });
  const Result<Report> report = run();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(report.error().message, HasSubstr("no packet comes back"));
  EXPECT_THAT(report.error().message, HasSubstr("UDP port 4791"));
}

TEST_F(MeasurementTest, TellsAPathOfASmallerMtu) {
  // The first answer has no bytes, the second one full packets.
  int writes = 0;
  fabric_.judgeBy([&writes](std::uint32_t, ibv_wr_opcode opcode) {
    const bool isFull = opcode == IBV_WR_RDMA_WRITE_WITH_IMM && ++writes == 2;
    return isFull ? Fabric::Verdict{.status = IBV_WC_RETRY_EXC_ERR} : Fabric::Verdict{};
  });
  const Result<Report> report = run();
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message, HasSubstr("full ones do not; the MTU"));
  EXPECT_FALSE(served_.ok());
}

TEST_F(MeasurementTest, NamesThePortsThatThereAre) {
  const Result<Report> report = run({.port = {.device = "mlx5_7"}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(report.error().message, HasSubstr("mlx5_7 cannot be used; there is here0/1"));
}

TEST_F(MeasurementTest, NamesTheGidsThatThereAre) {
  const Result<Report> report = run({.port = {.gidIndex = 200}});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(report.error().message, HasSubstr("has no GID of index 200; "));
}

TEST(PortSummaryTest, SurvivesTheConnection) {
  const PortSummary port{.device = "mlx5_0/1",
                         .gid = "10.0.0.7",
                         .gidType = "RoCEv2",
                         .pci = "0000:17:00.0",
                         .gidIndex = 3,
                         .numaNode = 1,
                         .mtuBytes = 4096,
                         .bitsPerSecond = 400'000'000'000};
  const Result<PortSummary> decoded = decodePortSummary(encode(port));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, port);
  EXPECT_EQ(decodePortSummary("mlx5_0/1 nonsense").code(), ErrorCode::kProtocolError);
}

TEST(FailureLineTest, SurvivesTheConnection) {
  const auto failure = failureOf(failureLine({ErrorCode::kOutOfSpace, "may not pin 4 bytes"}));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->code, ErrorCode::kOutOfSpace);
  EXPECT_EQ(failure->message, "may not pin 4 bytes");
  EXPECT_FALSE(failureOf("wrote 1 2 3").has_value());
}

}  // namespace
}  // namespace hearth::rdma_bench
