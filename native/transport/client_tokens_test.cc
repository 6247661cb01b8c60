// Tokens that an agent refuses although its cluster has made them: those for agents of other nodes,
// and those that an administrator has revoked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

Capability capabilityOfPod(const std::string& pod, std::vector<std::string> nodes = {}) {
  const auto until = std::chrono::system_clock::now().time_since_epoch() + std::chrono::hours(1);
  return {
      .cluster = "test",
      .node = "",
      .expiresAtMs = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::milliseconds>(until).count()),
      .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
      .datasets = {"llm"},
      .podNamespace = "team",
      .pod = pod,
      .nodes = std::move(nodes),
  };
}

struct ClientTokensTest : testing::Test {
  [[nodiscard]] PeerAddress address() const { return node.listeners[0]->address(); }
  [[nodiscard]] static CapabilityToken tokenOf(const Capability& capability) {
    return *signCapability(capability, TestNode::secretOf("secret"));
  }
  // A client whose token was taken.
  std::unique_ptr<RawPeer> connected(const Capability& capability) {
    auto peer = std::make_unique<RawPeer>(address());
    EXPECT_TRUE(peer->joinAsClient(tokenOf(capability), "program"));
    EXPECT_TRUE(peer->expect<Credit>());
    return peer;
  }
  // The sentence with which the agent refuses the token.
  std::string refusal(const Capability& capability) {
    RawPeer peer(address());
    const CapabilityToken token = tokenOf(capability);
    Hello hello{"test", "program", "1", randomNonce()};
    hello.proofKinds = bitOf(ProofKind::kCapability);
    const std::vector<std::byte> frame = encodeFrame(hello);
    EXPECT_TRUE(peer.send(encodeFrame(Preface{0, 1})) && peer.send(frame));
    const std::optional<RawPeer::Got> challenge = peer.frame();
    EXPECT_TRUE(challenge && challenge->header.type == FrameType::kChallenge);
    if (!challenge) return "";
    EXPECT_TRUE(peer.send(encodeFrame(proveCapability(ConnectionRole::kDialler,
                                                      std::span(frame).subspan(kFrameHeaderBytes),
                                                      challenge->body, token))));
    const std::optional<Refuse> refused = peer.expect<Refuse>();
    EXPECT_TRUE(refused && refused->code == ErrorCode::kUnauthenticated);
    return refused ? refused->sentence : "";
  }
  void revoke(RevokedTokens tokens) {
    const auto list = std::make_shared<const RevokedTokens>(std::move(tokens));
    node.post([&] { node.transport->setRevoked(list); });
  }
  static bool answers(RawPeer& client, std::uint64_t id) {
    if (!client.send(encodeFrame(ReadRequest{keyOf(kPlain), 0, 100, 600'000}, id))) return false;
    const std::optional<ReadAnswer> answer = client.expect<ReadAnswer>();
    return answer && answer->code == ErrorCode::kOk && client.receive(100).size() == 100;
  }

  TestNode node{TestNode::optionsOf("asked")};
};

TEST_F(ClientTokensTest, OfOtherNodesAreRefused) {
  EXPECT_THAT(refusal(capabilityOfPod("one", {"home", "other"})), HasSubstr("other nodes"));
  Capability ofOne = capabilityOfPod("one");
  ofOne.node = "home";
  EXPECT_THAT(refusal(ofOne), HasSubstr("other nodes"));
  // Its programs run on another node, and this agent stands in for that node's.
  const auto other = connected(capabilityOfPod("one", {"home", "asked"}));
  EXPECT_TRUE(answers(*other, 1));
}

TEST_F(ClientTokensTest, OfAPodThatIsRevokedEndItsConnectionsAlone) {
  const auto one = connected(capabilityOfPod("one")), two = connected(capabilityOfPod("two"));
  EXPECT_TRUE(answers(*one, 1) && answers(*two, 1));
  revoke({.pods = {"team/one"}});
  const std::optional<Goodbye> goodbye = one->expect<Goodbye>();
  ASSERT_TRUE(goodbye);
  EXPECT_EQ(goodbye->code, ErrorCode::kUnauthenticated);
  EXPECT_TRUE(one->closed());
  EXPECT_THAT(refusal(capabilityOfPod("one")), HasSubstr("revoked"));
  EXPECT_TRUE(answers(*two, 2));
  revoke({});
  EXPECT_TRUE(answers(*connected(capabilityOfPod("one")), 1));
}

TEST_F(ClientTokensTest, OfANamespaceThatIsRevokedAreRefused) {
  revoke({.namespaces = {"team"}});
  EXPECT_THAT(refusal(capabilityOfPod("one")), HasSubstr("revoked"));
  Capability ofOther = capabilityOfPod("one");
  ofOther.podNamespace = "other";
  EXPECT_TRUE(answers(*connected(ofOther), 1));
}

TEST_F(ClientTokensTest, RevokedByTheirIdAreRefused) {
  const Capability capability = capabilityOfPod("one");
  revoke({.tokens = {decodeCapability(tokenOf(capability).claims)->id}});
  EXPECT_THAT(refusal(capability), HasSubstr("revoked"));
  Capability next = capability;
  ++next.expiresAtMs;
  EXPECT_TRUE(answers(*connected(next), 1)) << "another token of the same pod";
}

TEST_F(ClientTokensTest, RevokedDuringTheHandshakeAreNotServed) {
  RawPeer peer(address());
  const CapabilityToken token = tokenOf(capabilityOfPod("one"));
  Hello hello{"test", "program", "1", randomNonce()};
  hello.proofKinds = bitOf(ProofKind::kCapability);
  const std::vector<std::byte> frame = encodeFrame(hello);
  ASSERT_TRUE(peer.send(encodeFrame(Preface{0, 1})) && peer.send(frame));
  const std::optional<RawPeer::Got> challenge = peer.frame();
  ASSERT_TRUE(challenge);
  revoke({.pods = {"team/one"}});
  ASSERT_TRUE(peer.send(encodeFrame(proveCapability(ConnectionRole::kDialler,
                                                    std::span(frame).subspan(kFrameHeaderBytes),
                                                    challenge->body, token))));
  const std::optional<RawPeer::Got> next = peer.frame();
  EXPECT_TRUE(!next || next->header.type != FrameType::kCredit);
}

}  // namespace
}  // namespace hearth
