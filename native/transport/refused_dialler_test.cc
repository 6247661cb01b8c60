// An agent that has no room for another connection is not dialled again and again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/raw_peer.h"
#include "transport/socket_limits.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

TEST(RefusedDialler, LeavesAFullAgentAloneForAWhile) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.openFiles = 64;
  const std::size_t most = socketLimits(64, 1).connections;
  TestNode full(options);
  std::vector<std::unique_ptr<RawPeer>> others;
  for (std::size_t i = 0; i < most; ++i) {
    others.push_back(std::make_unique<RawPeer>(full.listeners[0]->address()));
    ASSERT_TRUE(others.back()->join("node" + std::to_string(i)));
  }
  TestNode asker(TestNode::optionsOf("asker"));
  asker.setPeers({full.identity()});
  std::vector<std::byte> into(kBlockBytes);
  const Status status = asker.read("asked", kPlain, 0, into);
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable) << status.error().message;
  EXPECT_THAT(status.error().message, HasSubstr("too many connections"));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(asker.read("asked", kPlain, 0, into).code(), ErrorCode::kUnavailable);
  }
  EXPECT_LT(full.statisticsOf("").requests, 20u) << "handshakes";
  others.clear();
  EXPECT_TRUE(eventually([&] { return asker.read("asked", kPlain, 0, into).ok(); }));
}

}  // namespace
}  // namespace hearth
