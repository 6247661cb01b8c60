// Connections of unauthenticated peers, as many as there are slots and more: the agent serves other
// agents all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/limits.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

class UnauthenticatedPeersTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void start(TransportOptions options = TestNode::optionsOf("asked")) {
    node = std::make_unique<TestNode>(std::move(options), GetParam());
  }
  [[nodiscard]] PeerAddress address() const { return node->listeners[0]->address(); }
  std::unique_ptr<TestNode> node;
};

INSTANTIATE_TEST_SUITE_P(Backends, UnauthenticatedPeersTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(UnauthenticatedPeersTest, HandshakesThatStallCannotKeepOthersOut) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.connectTimeout = kHang;
  start(options);
  std::vector<std::unique_ptr<RawPeer>> stalled;
  for (std::size_t i = 0; i < kMaxUnauthenticatedPerHost; ++i) {
    stalled.push_back(std::make_unique<RawPeer>(address()));
    ASSERT_TRUE(stalled.back()->send(encodeFrame(Preface{0, 1})));
  }
  // One more from this address gets the slot of the oldest, which is sent the reason.
  expectServing(address());
  const std::optional<Refuse> refusal = stalled.front()->expect<Refuse>();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->sentence, HasSubstr("too many"));
}

TEST_P(UnauthenticatedPeersTest, HandshakesThatStallEnd) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.connectTimeout = 500ms;
  start(options);
  std::vector<std::unique_ptr<RawPeer>> stalled;
  for (int i = 0; i < 4; ++i) {
    stalled.push_back(std::make_unique<RawPeer>(address()));
    ASSERT_TRUE(stalled.back()->send(encodeFrame(Preface{0, 1})));
  }
  for (const auto& peer : stalled) EXPECT_TRUE(peer->closed());
}

// Connections that never say a word take all of the listener's places, and more.
TEST_P(UnauthenticatedPeersTest, AHostWithManyHalfOpenConnectionsKeepsNoOtherOut) {
  start();
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (std::size_t i = 0; i < kHalfOpen + 10; ++i)
    silent.push_back(std::make_unique<RawPeer>(address(), "127.0.0.2"));
  expectServing(address(), "127.0.0.1");
  expectServing(address(), "127.0.0.2");
  EXPECT_TRUE(silent.front()->closed());
}

TEST_P(UnauthenticatedPeersTest, ManyHostsWithHalfOpenConnectionsKeepNoOtherOut) {
  start();
  std::vector<std::unique_ptr<RawPeer>> silent, stalled;
  for (std::size_t i = 0; i < kHalfOpen + 40; ++i) {
    const std::string from = "127.0.1." + std::to_string(1 + i % 8);
    silent.push_back(std::make_unique<RawPeer>(address(), from));
    stalled.push_back(std::make_unique<RawPeer>(address(), from));
    ASSERT_TRUE(stalled.back()->send(encodeFrame(Preface{0, 1})));
  }
  expectServing(address(), "127.0.0.1");
  expectServing(address(), "127.0.1.1");
}

// So many hosts hold their connection open that each has but one, before and after the agent comes.
TEST_P(UnauthenticatedPeersTest, AnAgentWhosePrefaceHasNotComeKeepsItsPlace) {
  start();
  node->setPeers({{"known", "1", {{"127.0.0.9", 7527}}}});
  RawPeer agent(address(), "127.0.0.9");
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (std::size_t i = 0; i < kHalfOpen + 10; ++i) {
    const std::string from = "127.1." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200);
    silent.push_back(std::make_unique<RawPeer>(address(), from));
  }
  EXPECT_TRUE(silent.front()->closed()) << "it has made a place";
  EXPECT_TRUE(agent.join("known"));
}

// As many diallers as there are places each fail their proof.
TEST_P(UnauthenticatedPeersTest, HostsThatFailTheirProofsKeepNoOtherOut) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.connectTimeout = kHang;
  start(options);
  std::vector<std::unique_ptr<RawPeer>> liars;
  for (std::size_t i = 0; i < kMaxUnauthenticated; ++i) {
    const std::string from = "127.0.1." + std::to_string(1 + i / kMaxUnauthenticatedPerHost);
    liars.push_back(std::make_unique<RawPeer>(address(), from));
    ASSERT_TRUE(liars.back()->send(encodeFrame(Preface{0, 1})));
    ASSERT_TRUE(liars.back()->send(encodeFrame(Hello{"test", "a", "1", randomNonce()})));
  }
  for (const auto& liar : liars) {
    ASSERT_TRUE(liar->expect<Challenge>().has_value());
    ASSERT_TRUE(liar->send(encodeFrame(Proof{})));
    liar->shutDown();
  }
  EXPECT_TRUE(node->eventually(
      "", [](const auto& entry) { return entry.requests == kMaxUnauthenticated; }));
  expectServing(address(), "127.0.0.1");
}

// So many hosts dial that each has but one connection.
TEST_P(UnauthenticatedPeersTest, AnAgentInTheMiddleOfItsHandshakeKeepsItsPlace) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.connectTimeout = kHang;
  start(options);
  node->setPeers({{"known", "1", {{"127.0.0.9", 7527}}}});
  RawPeer agent(address(), "127.0.0.9");
  const std::vector<std::byte> hello = encodeFrame(Hello{"test", "known", "1", randomNonce()});
  ASSERT_TRUE(agent.send(encodeFrame(Preface{0, 1})) && agent.send(hello));
  const std::optional<RawPeer::Got> challenge = agent.frame();
  ASSERT_TRUE(challenge && challenge->header.type == FrameType::kChallenge);
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (std::size_t i = 0; i < kMaxUnauthenticated + 10; ++i) {
    const std::string from = "127.1." + std::to_string(i / 200) + "." + std::to_string(1 + i % 200);
    peers.push_back(std::make_unique<RawPeer>(address(), from));
    ASSERT_TRUE(peers.back()->send(encodeFrame(Preface{0, 1})));
  }
  EXPECT_TRUE(peers.front()->expect<Refuse>().has_value()) << "it has made a place";
  ASSERT_TRUE(agent.send(
      encodeFrame(proveSecret(ConnectionRole::kDialler, std::span(hello).subspan(kFrameHeaderBytes),
                              challenge->body, TestNode::secretOf("secret")))));
  EXPECT_TRUE(agent.expect<Proof>().has_value());
}

}  // namespace
}  // namespace hearth
