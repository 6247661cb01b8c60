// Messages of an authenticated dialler over its RDMA endpoint, or about it: the agent ends the
// endpoint and goes on serving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/raw_endpoint.h"
#include "transport/raw_peer.h"

namespace hearth {
namespace {

using ::testing::HasSubstr;

class RdmaHostileDiallerTest : public RdmaPair {
 protected:
  void startAsked() {
    b_ = node("b", devices({{.name = "b0", .address = 2}}));
    into_ = *MemoryRegion::allocate(kBlockBytes);
  }
  PeerAddress address() { return b_->listeners[0]->address(); }
  // The agent's answer to a dialler that asks for an endpoint with this body.
  std::optional<ControlAnswer> ask(RawPeer& peer, std::vector<std::byte> body) {
    if (!peer.send(encodeFrame(ControlRequest{kRdmaConnect, std::move(body)}, ++lastId_)))
      return std::nullopt;
    return peer.expect<ControlAnswer>();
  }
  static std::vector<std::byte> withPort(std::vector<std::byte> address, std::uint32_t port) {
    ByteWriter out(address);
    out.u32(port);
    return address;
  }
  // Connects an endpoint to the agent's.
  std::unique_ptr<RawEndpoint> endpoint(RawPeer& peer, std::uint32_t receives = 72) {
    auto made = std::make_unique<RawEndpoint>(
        fabric_, PortOptions{.name = "evil", .address = 66},
        [this](RawEndpoint&, std::span<const std::byte>) { ++answers_; }, receives);
    EXPECT_TRUE(peer.join("evil"));
    const auto answer = ask(peer, encode(made->address()));
    EXPECT_TRUE(answer && answer->code == ErrorCode::kOk);
    EXPECT_TRUE(made->connect(*decodeEndpointAddress(answer->body)).ok());
    return made;
  }
  // Expects that the agent ends the endpoint, which notices when it sends, and goes on serving.
  void expectEnded(RawEndpoint& endpoint) {
    EXPECT_TRUE(eventually([&] {
      endpoint.send(encodeEmptyFrame(FrameType::kPing, 1));
      return !endpoint.usable();
    }));
    expectServing(address());
  }
  static ReadRequest requestOf(std::uint32_t bytes) {
    ReadRequest request;
    request.length = bytes;
    request.timeoutMs = 600'000;
    return request;
  }
  static ReadRequest targeted(std::uint32_t bytes, std::uint64_t address) {
    ReadRequest request = requestOf(bytes);
    request.target = MemoryDescriptor{.leaseMs = 1000,
                                      .region = 1,
                                      .generation = 1,
                                      .address = address,
                                      .length = bytes,
                                      .keys = {{0, 0xdead00}}};
    return request;
  }

  std::uint64_t lastId_ = 0;
  std::atomic<int> answers_{0};
};

TEST_F(RdmaHostileDiallerTest, AddressesThatCannotBeAreRefused) {
  startAsked();
  RawPeer peer(address());
  ASSERT_TRUE(peer.join("evil"));
  EndpointAddress wrong = plausible();
  wrong.mtuBytes = 1;
  for (std::vector<std::byte> body :
       {encode(wrong), std::vector<std::byte>{std::byte{1}, std::byte{2}},
        withPort(encode(plausible()), kRdmaPorts), withPort(withPort(encode(plausible()), 1), 1)}) {
    const auto answer = ask(peer, body);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->code, ErrorCode::kProtocolError) << answer->sentence;
    EXPECT_THAT(answer->sentence, HasSubstr("impossible"));
  }
  // Only data can show that nobody is at an address.
  const auto answer = ask(peer, encode(plausible()));
  EXPECT_TRUE(answer && answer->code == ErrorCode::kOk);
  expectServing(address());
}

TEST_F(RdmaHostileDiallerTest, NewEndpointsReplaceOlderOnes) {
  startAsked();
  RawPeer peer(address());
  ASSERT_TRUE(peer.join("evil"));
  std::size_t after = 0;
  for (int round = 0; round < 20; ++round) {
    const auto answer = ask(peer, encode(plausible()));
    ASSERT_TRUE(answer && answer->code == ErrorCode::kOk);
    if (round == 0) after = fabric_.objects();
  }
  EXPECT_TRUE(eventually([&] { return fabric_.objects() == after; }));
}

TEST_F(RdmaHostileDiallerTest, AKeyThatOpensNothingEndsTheEndpoint) {
  startAsked();
  RawPeer peer(address());
  const auto evil = endpoint(peer);
  evil->send(encodeFrame(targeted(kBlockBytes, into_->address()), 1));
  expectEnded(*evil);
  EXPECT_THAT(into_->bytes(), ::testing::Each(std::byte{0}));
}

TEST_F(RdmaHostileDiallerTest, RequestsThatCannotBeEndTheEndpoint) {
  startAsked();
  ReadRequest other = targeted(kBlockBytes, into_->address());
  other.target->length = 2 * kBlockBytes;
  ReadRequest keyless = targeted(kBlockBytes, into_->address());
  keyless.target->keys.clear();
  const std::vector<std::vector<std::byte>> frames{encodeFrame(other, 1),
                                                   encodeFrame(keyless, 1),
                                                   encodeFrame(requestOf(2 * kBlockBytes), 1),
                                                   encodeFrame(ReadAnswer{}, 1),
                                                   std::vector<std::byte>(200, std::byte{0x5a}),
                                                   std::vector<std::byte>(5)};
  for (const std::vector<std::byte>& frame : frames) {
    RawPeer peer(address());
    const auto evil = endpoint(peer);
    evil->send(frame);
    expectEnded(*evil);
  }
}

TEST_F(RdmaHostileDiallerTest, MoreRequestsThanAgreedEndTheEndpoint) {
  startAsked();
  RawPeer peer(address());
  const auto evil = endpoint(peer);
  ReadRequest stuck = requestOf(kBlockBytes);
  stuck.key = keyOf(kStuck);
  for (std::uint64_t id = 1; id <= kRdmaRequests + 1; ++id) evil->send(encodeFrame(stuck, id));
  expectEnded(*evil);
}

// Answers that wait for a receive would hold the memory that other askers' answers need.
TEST_F(RdmaHostileDiallerTest, RequestsWithoutReceivesForTheirAnswersEndTheEndpoint) {
  startAsked();
  RawPeer peer(address());
  const auto evil = endpoint(peer, 3);
  a_ = node("a", portsOfA_ = devices({{.name = "a0", .address = 1}}));
  a_->setPeers({b_->identity()});
  ASSERT_TRUE(into_->registrationWith(portsOfA_.front()).ok());
  ASSERT_TRUE(connects());
  ReadRequest stuck = requestOf(kBlockBytes);
  stuck.key = keyOf(kStuck);
  for (std::uint64_t id = 1; id <= 4; ++id) evil->send(encodeFrame(stuck, id));
  expectEnded(*evil);
  b_->post([this] { b_->handler->released.set(); });
  const std::uint64_t before = a_->statisticsOf("b").rdmaBytesReceived;
  EXPECT_TRUE(read(kPlain, kBlockBytes).ok());
  EXPECT_EQ(a_->statisticsOf("b").rdmaBytesReceived, before + kBlockBytes);
}

TEST_F(RdmaHostileDiallerTest, MoreEndpointsThanAQueueHasRoomForAreMade) {
  startAsked();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int connection = 0; connection < 2; ++connection) {
    peers.push_back(std::make_unique<RawPeer>(address()));
    ASSERT_TRUE(peers.back()->join("evil" + std::to_string(connection)));
    for (std::uint32_t port = 0; port < kRdmaPorts; ++port) {
      const auto answer = ask(*peers.back(), withPort(encode(plausible()), port));
      ASSERT_TRUE(answer && answer->code == ErrorCode::kOk) << answer->sentence;
    }
  }
  expectServing(address());
}

TEST_F(RdmaHostileDiallerTest, MoreEndpointsThanOnePeerMayHaveAreRefused) {
  startAsked();
  const auto made = [this](RawPeer& peer) {
    std::size_t count = 0;
    for (std::uint32_t port = 0; port < kRdmaPorts; ++port) {
      const auto answer = ask(peer, withPort(encode(plausible()), port));
      if (answer && answer->code == ErrorCode::kOk) ++count;
      if (answer && answer->code != ErrorCode::kOk) {
        EXPECT_EQ(answer->code, ErrorCode::kUnavailable);
        EXPECT_THAT(answer->sentence, HasSubstr("as many RDMA endpoints"));
      }
    }
    return count;
  };
  std::vector<std::unique_ptr<RawPeer>> connections;
  std::size_t all = 0;
  for (int connection = 0; connection < 3; ++connection) {
    connections.push_back(std::make_unique<RawPeer>(address()));
    ASSERT_TRUE(connections.back()->join("evil"));
    all += made(*connections.back());
  }
  EXPECT_EQ(all, kEndpointsPerPeer);
  RawPeer other(address());
  ASSERT_TRUE(other.join("good"));
  EXPECT_EQ(made(other), kRdmaPorts);
  // Places come back with the endpoints.
  connections.clear();
  RawPeer again(address());
  ASSERT_TRUE(again.join("evil"));
  EXPECT_TRUE(eventually([&] { return made(again) == kRdmaPorts; }));
}

TEST_F(RdmaHostileDiallerTest, AnAskerThatPostsNoReceivesHoldsUpNobody) {
  startAsked();
  RawPeer peer(address());
  const auto evil = endpoint(peer);
  evil->deafen();
  for (std::uint64_t id = 1; id <= 200; ++id) evil->send(encodeEmptyFrame(FrameType::kPing, id));
  expectServing(address());
  fabric_.endReceiverRetries();
  expectServing(address());
}

}  // namespace
}  // namespace hearth
