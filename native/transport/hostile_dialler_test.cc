// Messages of unauthenticated and broken peers to an agent: it turns them away with a reason and
// serves the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/optional_fields.h"
#include "transport/limits.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

using testing::HasSubstr;

class HostileDiallerTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void start(TransportOptions options = TestNode::optionsOf("asked")) {
    node = std::make_unique<TestNode>(std::move(options), GetParam());
  }
  [[nodiscard]] PeerAddress address() const { return node->listeners[0]->address(); }
  // Sends `bytes` as a dialler without a proof. Returns the Refuse that comes back.
  std::optional<Refuse> refusalOf(std::span<const std::byte> bytes) {
    RawPeer peer(address());
    EXPECT_TRUE(peer.send(bytes));
    const std::optional<Refuse> refusal = peer.expect<Refuse>();
    EXPECT_TRUE(peer.closed());
    return refusal;
  }
  std::unique_ptr<TestNode> node;
};

INSTANTIATE_TEST_SUITE_P(Backends, HostileDiallerTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

std::vector<std::byte> joined(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  std::vector<std::byte> both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

std::vector<std::byte> frameOf(FrameType type, std::span<const std::byte> body,
                               std::uint32_t flags = 0) {
  std::vector<std::byte> frame;
  ByteWriter out(frame);
  out.u32(kFrameMagic);
  out.u16(kWireVersion);
  out.u16(static_cast<std::uint16_t>(type));
  out.u32(flags);
  out.u32(static_cast<std::uint32_t>(body.size()));
  out.u64(0);
  out.u32(crc32c(body));
  out.u32(crc32c(std::span(frame).first(kFrameHeaderBytes - 4)));
  out.bytes(body);
  return frame;
}
std::vector<std::byte> skippableFrame(std::uint16_t type, std::size_t size) {
  return frameOf(static_cast<FrameType>(type), std::vector<std::byte>(size), kSkippable);
}

TEST_P(HostileDiallerTest, WrongSecretIsRefused) {
  start();
  RawPeer peer(address());
  ASSERT_TRUE(peer.send(
      joined(encodeFrame(Preface{0, 1}), encodeFrame(Hello{"test", "liar", "1", randomNonce()}))));
  ASSERT_TRUE(peer.expect<Challenge>().has_value());
  ASSERT_TRUE(peer.send(encodeFrame(Proof{})));
  const std::optional<Refuse> refusal = peer.expect<Refuse>();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(refusal->sentence, HasSubstr("same secret"));
  EXPECT_TRUE(peer.closed());
  EXPECT_TRUE(node->eventually("", [](const auto& entry) {
    return entry.requests == 1 && entry.error.find("127.0.0.1") != std::string::npos;
  }));
  expectServing(address());
}

TEST_P(HostileDiallerTest, TwoAgentsWithDifferentSecretsSaySo) {
  start();
  TransportOptions options = TestNode::optionsOf("asker");
  options.secret = TestNode::secretOf("another");
  TestNode asker(options, GetParam());
  asker.setPeers({node->identity()});
  std::vector<std::byte> into(100);
  const Status status = asker.read("asked", kPlain, 0, into);
  EXPECT_EQ(status.code(), ErrorCode::kUnauthenticated);
  EXPECT_THAT(status.error().message, HasSubstr("same secret"));
}

TEST_P(HostileDiallerTest, OtherClustersAreRefused) {
  start();
  const auto refusal = refusalOf(
      joined(encodeFrame(Preface{0, 1}), encodeFrame(Hello{"other", "a", "1", randomNonce()})));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(refusal->sentence, HasSubstr("different clusters"));
  expectServing(address());
}

TEST_P(HostileDiallerTest, OtherVersionsAreRefusedWithTheReason) {
  start();
  std::vector<std::byte> preface = encodeFrame(Preface{0, 1});
  preface[4] = std::byte{9};
  const std::uint32_t checksum = crc32c(std::span(preface).first(28));
  for (unsigned i = 0; i < 4; ++i) preface[28 + i] = static_cast<std::byte>(checksum >> (8 * i));
  const auto refusal = refusalOf(preface);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnsupported);
  EXPECT_THAT(refusal->sentence, HasSubstr("version 9"));
  expectServing(address());
}

// An agent of a later release: it offers more, with fields that we do not know.
TEST_P(HostileDiallerTest, LaterReleasesAreTakenForWhatBothKnow) {
  start();
  Hello hello{"test", "later", "1", randomNonce()};
  hello.newestVersion = kWireVersion + 1;
  hello.features = ~0ull;
  hello.proofKinds = ~0u;
  std::vector<std::byte> body = encodeFrame(hello);
  body.erase(body.begin(), body.begin() + kFrameHeaderBytes);
  ByteWriter out(body);
  putField(out, 500, std::as_bytes(std::span("of a later release")));
  RawPeer later(address());
  const std::optional<Challenge> challenge = later.join(frameOf(FrameType::kHello, body));
  ASSERT_TRUE(challenge.has_value());
  EXPECT_EQ(challenge->version, kWireVersion);
  EXPECT_EQ(challenge->features, kWireFeatures);
  EXPECT_EQ(challenge->proofKind, ProofKind::kClusterSecret);
  // Its unknown frames do not disturb, and it gets answers.
  ASSERT_TRUE(later.send(skippableFrame(201, 3000)));
  ASSERT_TRUE(later.send(encodeFrame(ReadRequest{{}, 0, 100, 600'000}, 1)));
  const std::optional<ReadAnswer> answer = later.expect<ReadAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->payloadLength, 100u);
}

// A dialler without a token is refused, even with the proof of an agent.
TEST_P(HostileDiallerTest, AClientIsAskedForATokenAlone) {
  start();
  Hello hello{"test", "client", "1", randomNonce()};
  hello.proofKinds = bitOf(ProofKind::kCapability);
  RawPeer client(address());
  ASSERT_TRUE(client.send(joined(encodeFrame(Preface{0, 1}), encodeFrame(hello))));
  const std::optional<Challenge> challenge = client.expect<Challenge>();
  ASSERT_TRUE(challenge.has_value());
  EXPECT_EQ(challenge->proofKind, ProofKind::kCapability);
  ASSERT_TRUE(client.send(encodeFrame(Proof{ProofKind::kClusterSecret, {std::byte{1}}})));
  const std::optional<Refuse> refusal = client.expect<Refuse>();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnauthenticated);
  expectServing(address());
}

TEST_P(HostileDiallerTest, NoVersionOrProofInCommonIsRefused) {
  start();
  Hello hello{"test", "future", "1", randomNonce()};
  hello.oldestVersion = hello.newestVersion = kWireVersion + 1;
  auto refusal = refusalOf(joined(encodeFrame(Preface{0, 1}), encodeFrame(hello)));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnsupported);
  EXPECT_THAT(refusal->sentence, HasSubstr("no version of the wire protocol in common"));
  hello = {"test", "future", "1", randomNonce()};
  hello.proofKinds = bitOf(ProofKind::kCertificate);
  refusal = refusalOf(joined(encodeFrame(Preface{0, 1}), encodeFrame(hello)));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kUnsupported);
  EXPECT_THAT(refusal->sentence, HasSubstr("no kind of proof in common"));
  expectServing(address());
}

// An agent of the release before, which lacks a feature: both go on with what both have.
TEST_P(HostileDiallerTest, FeaturesThatOneSideLacksAreOffAndSaidSo) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.offer.features = 0;
  start(options);
  TestNode asker(TestNode::optionsOf("asker"), GetParam());
  asker.setPeers({node->identity()});
  std::vector<std::byte> into(100);
  EXPECT_TRUE(asker.read("asked", kPlain, 0, into).ok());
  EXPECT_TRUE(asker.eventually("asked", [](const auto& entry) {
    return entry.wireVersion == kWireVersion && entry.featuresOff == kWireFeatures;
  }));
}

TEST_P(HostileDiallerTest, GarbageAndOtherProtocolsAreRefused) {
  start();
  const std::string_view http = "GET / HTTP/1.1\r\nHost: agent.example\r\nAccept: */*\r\n\r\n";
  const auto refusal = refusalOf(std::as_bytes(std::span(http)));
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, ErrorCode::kProtocolError);
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::vector<std::byte> noise(1 + random() % 3000);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    RawPeer before(address());
    before.send(noise);
    RawPeer after(address());
    after.send(encodeFrame(Preface{0, 1}));
    after.send(noise);
  }
  RawPeer member(address());
  ASSERT_TRUE(member.join());
  ASSERT_TRUE(member.send(patternBytes(5000)));
  EXPECT_TRUE(node->eventually("raw", [](const auto& entry) {
    return entry.error.find("not Hearth's wire protocol") != std::string::npos;
  }));
  expectServing(address());
}

TEST_P(HostileDiallerTest, ConversationsCutAtEveryByteLeaveNothingBehind) {
  start();
  const auto opening =
      joined(encodeFrame(Preface{0, 1}), encodeFrame(Hello{"test", "cut", "1", randomNonce()}));
  for (std::size_t length = 0; length < opening.size(); ++length) {
    RawPeer peer(address());
    ASSERT_TRUE(peer.send(std::span(opening).first(length)));
  }
  const auto requests = joined(encodeFrame(ReadRequest{{}, 0, 100, 600'000}, 1),
                               joined(encodeFrame(ControlRequest{1, patternBytes(20)}, 2),
                                      encodeEmptyFrame(FrameType::kCancel, 2)));
  for (std::size_t length = 0; length <= requests.size(); ++length) {
    RawPeer peer(address());
    ASSERT_TRUE(peer.join("cut"));
    ASSERT_TRUE(peer.send(std::span(requests).first(length)));
  }
  expectServing(address());
}

// Unauthenticated peers may send no long frames, and the agent keeps nothing of them.
TEST_P(HostileDiallerTest, LongFramesBeforeTheProofAreRefusedByTheirHeaders) {
  start();
  const std::vector<std::byte> hello = encodeFrame(Hello{"test", "liar", "1", randomNonce()});
  const std::vector<std::byte> control = encodeFrame(ControlRequest{1, patternBytes(1 << 19)}, 1);
  const std::vector<std::byte> unknown = skippableFrame(201, kMaxSkippedBytes);
  for (const std::vector<std::byte>& frame : {control, unknown}) {
    for (const bool greeted : {false, true}) {
      RawPeer peer(address());
      ASSERT_TRUE(peer.send(encodeFrame(Preface{0, 1})));
      if (greeted) {
        ASSERT_TRUE(peer.send(hello));
        ASSERT_TRUE(peer.expect<Challenge>().has_value());
      }
      // Only the header is sent: the agent does not wait for the rest.
      ASSERT_TRUE(peer.send(std::span(frame).first(kFrameHeaderBytes + 1)));
      const std::optional<Refuse> refusal = peer.expect<Refuse>();
      ASSERT_TRUE(refusal.has_value());
      EXPECT_EQ(refusal->code, ErrorCode::kProtocolError);
      EXPECT_THAT(refusal->sentence, HasSubstr("before the proof"));
      EXPECT_TRUE(peer.closed());
    }
  }
  // The same frames after the proof.
  RawPeer member(address());
  ASSERT_TRUE(member.join());
  ASSERT_TRUE(member.send(unknown) && member.send(control));
  EXPECT_TRUE(member.expect<ControlAnswer>().has_value());
}

// The Hello has fields of later releases.
TEST_P(HostileDiallerTest, TheLongestHelloIsTaken) {
  start();
  const std::string name(kMaxNameBytes, 'n');
  std::vector<std::byte> body = encodeFrame(Hello{"test", name, name, randomNonce()});
  body.erase(body.begin(), body.begin() + kFrameHeaderBytes);
  const std::size_t most = bodyLimit(FrameType::kHello) - (kMaxNameBytes - 4);
  ByteWriter out(body);
  putField(out, 500, patternBytes(most - body.size() - 4));
  ASSERT_EQ(body.size(), most);
  RawPeer later(address());
  EXPECT_TRUE(later.join(frameOf(FrameType::kHello, body)).has_value());
}

TEST_P(HostileDiallerTest, AskingForMoreThanTheCreditEndsTheConnection) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.creditBytes = 2 * kChunkBytes;
  start(options);
  RawPeer peer(address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    peer.send(encodeFrame(ReadRequest{keyOf(kStuck), 0, kChunkBytes, 600'000}, id));
  }
  EXPECT_TRUE(peer.closed());
  EXPECT_THAT(node->statisticsOf("raw").error, HasSubstr("more than its credit"));
  expectServing(address());
}

TEST_P(HostileDiallerTest, RequestIdsAreUsedOnce) {
  start();
  RawPeer peer(address());
  ASSERT_TRUE(peer.join());
  for (int i = 0; i < 2; ++i) {
    peer.send(encodeFrame(ReadRequest{keyOf(kStuck), 0, kBlockBytes, 600'000}, 9));
  }
  EXPECT_TRUE(peer.closed());
  EXPECT_THAT(node->statisticsOf("raw").error, HasSubstr("twice"));
}

TEST_P(HostileDiallerTest, FramesOfTheOtherRoleEndTheConnection) {
  start();
  for (const std::vector<std::byte>& frame :
       {encodeFrame(ReadAnswer{.payloadLength = 1, .blockChecksums = {0}}, 1),
        encodeFrame(Credit{1, 1}), encodeFrame(Proof{}), encodeFrame(Preface{0, 1})}) {
    RawPeer peer(address());
    ASSERT_TRUE(peer.join());
    ASSERT_TRUE(peer.send(frame));
    EXPECT_TRUE(peer.closed());
  }
}

TEST_P(HostileDiallerTest, FloodsOfPingsEndTheConnection) {
  start();
  RawPeer peer(address());
  ASSERT_TRUE(peer.join());
  std::vector<std::byte> pings;
  for (int i = 0; i < 2000; ++i) {
    const auto ping = encodeEmptyFrame(FrameType::kPing, 1);
    pings.insert(pings.end(), ping.begin(), ping.end());
  }
  // Until the kernels' buffers are full of pongs and a thousand more are queued.
  for (int i = 0; i < 1000; ++i) {
    if (!peer.send(pings)) break;
  }
  EXPECT_TRUE(node->eventually(
      "raw", [](const auto& entry) { return entry.error.find("floods") != std::string::npos; }));
  expectServing(address());
}

TEST_P(HostileDiallerTest, DisconnectsAPeerThatNeverReads) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.idleProbe = 40ms;
  start(options);
  RawPeer peer(address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= 8; ++id) {
    ASSERT_TRUE(peer.send(encodeFrame(ReadRequest{{}, 0, kChunkBytes, 600'000}, id)));
  }
  EXPECT_TRUE(node->eventually("raw", [](const auto& entry) {
    return entry.error.find("no sign of life") != std::string::npos ||
           entry.error.find("taken nothing") != std::string::npos;
  }));
}

TEST_P(HostileDiallerTest, DisconnectsAPeerThatTalksAndNeverReads) {
  TransportOptions options = TestNode::optionsOf("asked");
  options.idleProbe = 2s;  // a peer that talks is heard within that on any machine
  start(options);
  RawPeer peer(address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= 8; ++id) {
    ASSERT_TRUE(peer.send(encodeFrame(ReadRequest{{}, 0, kChunkBytes, 600'000}, id)));
  }
  EXPECT_TRUE(eventually([&] { return !peer.send(skippableFrame(201, 0)); }));
  EXPECT_THAT(node->statisticsOf("raw").error, HasSubstr("taken nothing"));
}

TEST(HostileDialler, DoesNotWaitForAMissingPreface) {
  TestNode node(TestNode::optionsOf("asked"));
  const auto before = Clock::now();
  RawPeer silent(node.listeners[0]->address());
  RawPeer slow(node.listeners[0]->address());
  const std::vector<std::byte> preface = encodeFrame(Preface{0, 1});
  ASSERT_TRUE(slow.send(std::span(preface).first(preface.size() - 1)));
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(slow.closed());
  EXPECT_GE(Clock::now() - before, kPrefaceTimeout);
}

TEST(Listening, SaysWhatToDoWhenItCannot) {
  auto reactor = std::move(*Reactor::create());
  TestNode node(TestNode::optionsOf("asked"));
  const auto create = [&](PeerAddress address) {
    return Listener::create(*reactor, std::move(address), [](std::uint32_t, int) {});
  };
  const auto taken = create(node.listeners[0]->address());
  EXPECT_EQ(taken.code(), ErrorCode::kInUse);
  EXPECT_THAT(taken.error().message, HasSubstr("choose another port"));
  const auto foreign = create({"192.0.2.1", 0});
  EXPECT_EQ(foreign.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(foreign.error().message, HasSubstr("192.0.2.1"));
  EXPECT_EQ(create({"agent.example", 7527}).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hearth
