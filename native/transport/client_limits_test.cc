// Clients that take more than their part: the limits hold by the pod and namespace of their tokens,
// and other clients and agents are served beside them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "transport/limits.h"
#include "transport/raw_peer.h"
#include "transport/socket_limits.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

CapabilityToken tokenOfPod(const std::string& space, const std::string& pod) {
  const auto until = std::chrono::system_clock::now().time_since_epoch() + std::chrono::hours(1);
  Capability capability{
      .cluster = "test",
      .node = "",
      .expiresAtMs = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(until).count()),
      .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
      .datasets = {"llm"},
      .podNamespace = space,
      .pod = pod,
  };
  return *signCapability(capability, TestNode::secretOf("secret"));
}

struct ClientLimitsTest : testing::Test {
  void start(TransportOptions options) { node = std::make_unique<TestNode>(std::move(options)); }
  [[nodiscard]] PeerAddress address() const { return node->listeners[0]->address(); }
  // A client that has proved its token, under a name that no other one has.
  std::unique_ptr<RawPeer> client(const CapabilityToken& token) {
    auto peer = std::make_unique<RawPeer>(address());
    EXPECT_TRUE(peer->joinAsClient(token, "name-" + std::to_string(++names)));
    return peer;
  }
  // Of so many tries with the token.
  std::size_t connectionsOf(const CapabilityToken& token, int tries) {
    std::size_t count = 0;
    for (int i = 0; i < tries; ++i) {
      std::unique_ptr<RawPeer> peer = client(token);
      const std::optional<RawPeer::Got> got = peer->frame();
      if (got && got->header.type == FrameType::kCredit) {
        ++count;
        clients.push_back(std::move(peer));
      } else {
        EXPECT_TRUE(got && got->header.type == FrameType::kGoodbye);
      }
    }
    return count;
  }

  std::unique_ptr<TestNode> node;
  std::vector<std::unique_ptr<RawPeer>> clients;
  int names = 0;
};

TEST_F(ClientLimitsTest, APodWithManyNamesHasItsPartOfTheConnections) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.openFiles = 256;
  start(options);
  const std::size_t all = socketLimits(256, 1).connections, ofClients = all - all / 4;
  EXPECT_EQ(connectionsOf(tokenOfPod("a", "one"), 200), ofClients / 2);
  EXPECT_EQ(connectionsOf(tokenOfPod("a", "two"), 200), ofClients / 4) << "of its namespace";
  EXPECT_EQ(connectionsOf(tokenOfPod("b", "one"), 200), ofClients / 4);
  for (std::size_t i = 0; i < 3; ++i) expectServing(address());
  clients.erase(clients.begin());
  EXPECT_TRUE(eventually([&] { return connectionsOf(tokenOfPod("a", "one"), 1) == 1; }));
}

TEST_F(ClientLimitsTest, RequestsOfAPodAreRefusedBeyondItsPart) {
  start(TestNode::optionsOf("asked"));
  const CapabilityToken token = tokenOfPod("a", "one");
  constexpr std::size_t kReads = kClientRequestMemory / 2 / kReadRequestMemory;
  for (std::size_t i = 0; i < kReads / kRequestsPerConnection; ++i) {
    clients.push_back(client(token));
    ASSERT_TRUE(clients.back()->expect<Credit>());
    for (std::uint64_t id = 1; id <= kRequestsPerConnection; ++id)
      ASSERT_TRUE(
          clients.back()->send(encodeFrame(ReadRequest{keyOf(kStuck), 0, 100, 600'000}, id)));
  }
  EXPECT_TRUE(eventually([&] { return node->handler->reads == int{kReads}; }));
  const auto one = client(token);
  ASSERT_TRUE(one->expect<Credit>());
  ASSERT_TRUE(one->send(encodeFrame(ReadRequest{keyOf(kPlain), 0, 100, 600'000}, 1)));
  const std::optional<ReadAnswer> refused = one->expect<ReadAnswer>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused->sentence, HasSubstr("this pod has too many requests"));
  const auto other = client(tokenOfPod("a", "two"));
  ASSERT_TRUE(other->expect<Credit>());
  ASSERT_TRUE(other->send(encodeFrame(ReadRequest{keyOf(kPlain), 0, 100, 600'000}, 1)));
  const std::optional<ReadAnswer> answered = other->expect<ReadAnswer>();
  ASSERT_TRUE(answered);
  EXPECT_EQ(answered->code, ErrorCode::kOk);
  // Also those of connections that have ended count until their handlers have.
  clients.clear();
  ASSERT_TRUE(one->send(encodeFrame(ReadRequest{keyOf(kPlain), 0, 100, 600'000}, 2)));
  EXPECT_EQ(one->expect<ReadAnswer>()->code, ErrorCode::kUnavailable);
}

TEST_F(ClientLimitsTest, AnswersThatNobodyTakesCountUntilTheyAreSent) {
  start(TestNode::optionsOf("asked"));
  const CapabilityToken token = tokenOfPod("a", "one");
  ControlRequest request;
  request.type = 1024;  // KiB of the answer
  const auto silent = client(token);
  ASSERT_TRUE(silent->expect<Credit>());
  for (std::uint64_t id = 1; id <= 100; ++id) ASSERT_TRUE(silent->send(encodeFrame(request, id)));
  const auto other = client(token);
  ASSERT_TRUE(other->expect<Credit>());
  std::uint64_t id = 0;
  EXPECT_TRUE(eventually([&] {
    EXPECT_TRUE(other->send(encodeFrame(request, ++id)));
    return other->expect<ControlAnswer>()->code == ErrorCode::kUnavailable;
  }));
}

TEST_F(ClientLimitsTest, AReaderThatTricklesLosesItsConnection) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.idleProbe = 100ms;
  start(options);
  const auto slow = client(tokenOfPod("a", "one"));
  ASSERT_TRUE(slow->expect<Credit>());
  const int buffer = 4096;
  setsockopt(slow->fd(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
  for (std::uint64_t id = 1; id <= 16; ++id)
    ASSERT_TRUE(slow->send(encodeFrame(ReadRequest{keyOf(kPlain), 0, kChunkBytes, 600'000}, id)));
  // Far below the slowest client, and never still.
  EXPECT_TRUE(node->eventually("clients", [&](const PeerStatistics& clients) {
    std::array<std::byte, 64> bytes;
    recv(slow->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return !clients.error.empty();
  }));
  EXPECT_THAT(node->statisticsOf("clients").error, HasSubstr("the other side"));
}

}  // namespace
}  // namespace hearth
