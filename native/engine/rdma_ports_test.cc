// The ports that an engine uses, and its reasons against the others.
#include "engine/rdma_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "verbs/testing/in_process_verbs.h"

namespace hearth {
namespace {

using ::testing::HasSubstr;
using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

class RdmaPortsTest : public ::testing::Test {
 protected:
  Result<RdmaPorts> open(std::vector<PortOptions> ports, std::vector<std::string> devices = {},
                         RdmaUse use = RdmaUse::kAuto) {
    auto verbs = std::make_shared<InProcessVerbs>(fabric_, std::move(ports));
    return RdmaPorts::open(
        {.use = use, .devices = std::move(devices), .load = [verbs](const std::string&) {
           return std::shared_ptr<Verbs>(verbs);
         }});
  }
  std::string used(std::vector<PortOptions> ports, std::vector<std::string> devices = {}) {
    const auto opened = open(std::move(ports), std::move(devices));
    std::string names;
    for (const std::shared_ptr<RdmaDevice>& port : opened->inUse())
      names += (names.empty() ? "" : ", ") + std::string(port->name());
    return names;
  }
  std::string reason(std::vector<PortOptions> ports, std::vector<std::string> devices = {}) {
    return open(std::move(ports), std::move(devices))->statistics().reason;
  }

  Fabric fabric_;
};

const PortOptions kFirst{.name = "mlx5_0", .address = 1}, kSecond{.name = "mlx5_1", .address = 2};

TEST_F(RdmaPortsTest, TakesPortsThatMatchAPattern) {
  EXPECT_EQ(used({kFirst, kSecond}), "mlx5_0/1, mlx5_1/1");
  EXPECT_EQ(used({kFirst, kSecond}, {"mlx5_1"}), "mlx5_1/1");
  EXPECT_EQ(used({kFirst, kSecond}, {"mlx5_1/1"}), "mlx5_1/1");
  EXPECT_EQ(used({kFirst, kSecond}, {"roce*", "mlx5_[1-3]"}), "mlx5_1/1");
}

TEST_F(RdmaPortsTest, NamesThePortsOfWhichNoneMatches) {
  EXPECT_EQ(reason({kFirst, kSecond}, {"mlx5_0/2", "roce*"}),
            "no port matches mlx5_0/2, roce* (rdma.devices); there are mlx5_0/1, mlx5_1/1");
}

TEST_F(RdmaPortsTest, SaysWhyAnAllowedPortIsNotUsed) {
  EXPECT_THAT(reason({{.name = "mlx5_0", .active = false}}), HasSubstr("check the cable"));
  EXPECT_THAT(reason({{.name = "mlx5_0", .openError = EACCES}}), HasSubstr("/dev/infiniband"));
  EXPECT_THAT(reason({}), HasSubstr("no RDMA device"));
}

TEST_F(RdmaPortsTest, ListsRefusedPortsBesideTheOneThatIsUsed) {
  const auto opened = open({kFirst, {.name = "mlx5_1", .address = 2, .active = false}});
  const RdmaStatistics rdma = opened->statistics();
  ASSERT_EQ(rdma.ports.size(), 1u);
  EXPECT_TRUE(rdma.ports.front().used);
  ASSERT_EQ(rdma.refused.size(), 1u);
  EXPECT_EQ(rdma.refused.front().port, "mlx5_1/1");
}

// Nobody wants to hear of a port that may not be used.
TEST_F(RdmaPortsTest, ListsNoRefusedPortThatMatchesNoPattern) {
  const auto opened = open({kFirst, {.name = "mlx5_1", .address = 2, .active = false}}, {"mlx5_0"});
  EXPECT_TRUE(opened->statistics().refused.empty());
}

TEST_F(RdmaPortsTest, AreAnErrorWithAdviceWhereTheyAreRequired) {
  const auto opened = open({{.name = "mlx5_0", .active = false}}, {}, RdmaUse::kRequired);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(opened.error().message, HasSubstr("RDMA is required and cannot be used: mlx5_0/1"));
  EXPECT_THAT(opened.error().message, HasSubstr("set rdma to auto"));
}

TEST_F(RdmaPortsTest, SayWhenAllOfThemHaveGoneDown) {
  auto opened = open({kFirst, kSecond});
  EXPECT_THAT(opened->statistics().reason, HasSubstr("being pinned"));
  const auto ports = opened->inUse();
  for (const std::shared_ptr<RdmaDevice>& port : ports) opened->notePinned(*port);
  EXPECT_EQ(opened->statistics().reason, "");
  fabric_.setLink(1, false);
  ports[0]->takeEvents();
  EXPECT_EQ(opened->statistics().reason, "");
  EXPECT_FALSE(opened->statistics().ports[0].active);
  fabric_.setLink(2, false);
  ports[1]->takeEvents();
  EXPECT_THAT(opened->statistics().reason, HasSubstr("mlx5_0/1 and mlx5_1/1 are down"));
  fabric_.setLink(2, true);
  ports[1]->takeEvents();
  EXPECT_EQ(opened->statistics().reason, "");
}

TEST_F(RdmaPortsTest, ARefusedPortLeavesTheOthersInUse) {
  auto opened = open({kFirst, kSecond});
  const auto ports = opened->inUse();
  opened->refuse(*ports[0], {ErrorCode::kOutOfSpace, "it may not pin memory"});
  opened->refuse(*ports[0], {ErrorCode::kInternal, "a later reason"});
  opened->notePinned(*ports[1]);
  EXPECT_TRUE(opened->usable().ok());
  EXPECT_EQ(opened->inUse(), std::vector{ports[1]});
  const RdmaStatistics rdma = opened->statistics();
  EXPECT_EQ(rdma.reason, "");
  EXPECT_FALSE(rdma.ports[0].used);
  EXPECT_TRUE(rdma.ports[1].used);
  ASSERT_EQ(rdma.refused.size(), 1u);
  EXPECT_EQ(rdma.refused[0].port, "mlx5_0/1");
  EXPECT_EQ(rdma.refused[0].reason, "it may not pin memory");
  opened->refuse(*ports[1], {ErrorCode::kUnavailable, "nor the second"});
  EXPECT_EQ(opened->usable().code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(opened->statistics().reason, "it may not pin memory; nor the second");
}

}  // namespace
}  // namespace hearth
