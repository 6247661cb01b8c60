// As many connections as are allowed, and one more: of one node, of all nodes, and on their way to
// a shard.
#include "transport/socket_limits.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

TEST(SocketLimits, AreAtMostHalfOfTheDescriptorsInAll) {
  const SocketLimits many = socketLimits(1u << 20, 8);
  EXPECT_EQ(many.arriving, 1024u);
  EXPECT_EQ(many.unauthenticated, 256u);
  EXPECT_EQ(many.connections, 16384u);
  for (const std::uint64_t files : {256u, 1024u, 4096u, 65536u, 1u << 20}) {
    for (const std::uint32_t shards : {1u, 8u}) {
      const SocketLimits limits = socketLimits(files, shards);
      EXPECT_LE((limits.arriving + limits.unauthenticated + limits.connections) * shards,
                files / 2);
      EXPECT_GE(limits.connections, files == 256 ? 8u : 32u);
    }
  }
  EXPECT_EQ(socketLimits(~0ull, 1).connections, kConnections) << "RLIM_INFINITY";
  EXPECT_GE(socketLimits(0, 8).arriving, 1u);
}

bool letsIn(const PeerAddress& address, const std::string& node) {
  return RawPeer(address).join(node);
}

TEST(SocketLimits, ConnectionsOfAllNodesTogetherAreBounded) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.openFiles = 64;
  const std::size_t most = socketLimits(64, 1).connections;
  TestNode node(options);
  const PeerAddress address = node.listeners[0]->address();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < most; ++i) {
    peers.push_back(std::make_unique<RawPeer>(address));
    ASSERT_TRUE(peers.back()->join("node" + std::to_string(i)));
  }
  EXPECT_FALSE(letsIn(address, "last"));
  EXPECT_TRUE(node.eventually(
      "", [](const auto& entry) { return entry.error.find("too many") != std::string::npos; }));
  EXPECT_THAT(node.statisticsOf("").error, HasSubstr("there are too many connections"));
  // The next connection gets a place that becomes free.
  peers.pop_back();
  EXPECT_TRUE(eventually([&] { return letsIn(address, "last"); }));
}

TEST(SocketLimits, ConnectionsThatEndedCountWhileTheirRequestsAreExecuted) {
  TestNode node(TestNode::optionsOf("asked"));
  const PeerAddress address = node.listeners[0]->address();
  for (std::size_t i = 0; i < kConnectionsPerNode; ++i) {
    RawPeer peer(address);
    ASSERT_TRUE(peer.join("hasty"));
    ASSERT_TRUE(peer.send(encodeFrame(ReadRequest{keyOf(kStuck), 0, 100, 60000}, 1)));
    ASSERT_TRUE(eventually([&] { return node.handler->reads > static_cast<int>(i); }));
  }
  EXPECT_FALSE(letsIn(address, "hasty"));
  EXPECT_THAT(node.statisticsOf("").error, HasSubstr("hasty has too many connections"));
  EXPECT_TRUE(letsIn(address, "another"));
  node.post([&] { node.handler->released.set(); });
  EXPECT_TRUE(eventually([&] { return node.handler->unwanted == int{kConnectionsPerNode}; }))
      << "they know that none waits";
  EXPECT_TRUE(letsIn(address, "hasty"));
}

TEST(SocketLimits, SocketsOnTheirWayToAShardAreBounded) {
  TestNode node(TestNode::optionsOf("asked"));
  std::promise<void> goOn;
  std::shared_future<void> going = goOn.get_future().share();
  std::promise<void> stopped;
  node.reactor->post([&stopped, going] {
    stopped.set_value();
    going.wait();
  });
  stopped.get_future().wait();
  RawAcceptor other;
  const RawPeer ours(other.address()), theirs = other.accept();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kArriving + 10; ++i) {
    const int copy = fcntl(theirs.fd(), F_DUPFD_CLOEXEC, 0);
    ASSERT_GE(copy, 0);
    node.transport->adopt(copy);
    if (fcntl(copy, F_GETFD) >= 0) ++kept;
  }
  EXPECT_EQ(kept, kArriving);
  goOn.set_value();
  // The shard took them, so others may come.
  node.post([] {});
  const int copy = fcntl(theirs.fd(), F_DUPFD_CLOEXEC, 0);
  node.transport->adopt(copy);
  expectServing(node.listeners[0]->address());
}

}  // namespace
}  // namespace hearth
