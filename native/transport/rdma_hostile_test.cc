// What a broken or hostile agent may say over its RDMA endpoint, or about it: the endpoint ends
// with a reason, reads go on over TCP with the right bytes, and no memory outside a window changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "transport/raw_peer.h"
#include "transport/rdma_shard.h"
#include "transport/rdma_test_pair.h"
#include "verbs/completion_queue.h"
#include "verbs/endpoint.h"

namespace hearth {
namespace {

using ::testing::HasSubstr;

// An endpoint that says what a test wants said, with a thread of its own.
class RawEndpoint {
 public:
  // Called on that thread, with the endpoint locked.
  using OnMessage = std::function<void(RawEndpoint&, std::span<const std::byte>)>;

  RawEndpoint(Fabric& fabric, PortOptions port, OnMessage onMessage)
      : onMessage_(std::move(onMessage)) {
    Devices found =
        openDevices(std::make_shared<InProcessVerbs>(fabric, std::vector{std::move(port)}));
    device_ = found.usable.at(0);
    queue_ = std::move(*CompletionQueue::create(device_, 1024));
    EndpointOptions options;
    options.receives = 72;
    options.receiveBytes = kRdmaMessageBytes;
    endpoint_ = std::move(*Endpoint::create(device_, *queue_, options, [this](const auto& message) {
      onMessage_(*this, message.bytes);
    }));
    memory_ = *MemoryRegion::allocate(kChunkBytes);
    EXPECT_TRUE(memory_->registrationWith(device_).ok());
    thread_ = std::thread([this] {
      while (!ended_) {
        {
          const std::lock_guard lock(mutex_);
          if (!deaf_) queue_->poll();
        }
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~RawEndpoint() {
    ended_ = true;
    thread_.join();
  }
  RawEndpoint(const RawEndpoint&) = delete;
  RawEndpoint& operator=(const RawEndpoint&) = delete;

  [[nodiscard]] EndpointAddress address() const { return endpoint_->address(); }
  [[nodiscard]] Status connect(const EndpointAddress& theirs) {
    const std::lock_guard lock(mutex_);
    return endpoint_->connect(theirs);
  }
  // It takes nothing any more, so that its receives run out.
  void deafen() { deaf_ = true; }
  void send(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    std::ranges::copy(bytes, memory_->bytes().begin());
    post({.kind = Transfer::Kind::kSend, .local = MemorySlice{memory_, 0, bytes.size()}});
  }
  void write(std::uint64_t address, std::uint32_t key, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    post({.local = MemorySlice{memory_, 0, bytes}, .remoteAddress = address, .remoteKey = key});
  }
  [[nodiscard]] bool usable() {
    const std::lock_guard lock(mutex_);
    return endpoint_->usable();
  }

 private:
  void post(Transfer transfer) {
    endpoint_->addCredit(1);
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::make_unique<Transfer>(std::move(transfer)));
    endpoint_->post(std::move(batch));
  }

  const OnMessage onMessage_;
  std::recursive_mutex mutex_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<MemoryRegion> memory_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> endpoint_;
  std::atomic<bool> ended_{false}, deaf_{false};
  std::thread thread_;
};

// The agent that is asked, honest over TCP alone.
class RawAsked {
 public:
  // `body`: of the answer to one who asks for an endpoint.
  using Body = std::function<std::vector<std::byte>(std::span<const std::byte> asked)>;

  explicit RawAsked(Body body) : body_(std::move(body)), bytes_(patternBytes(kChunkBytes)) {
    thread_ = std::thread([this] {
      while (!ended_) {
        auto peer = std::make_shared<RawPeer>(acceptor_.accept());
        if (ended_ || peer->fd() < 0) continue;
        const std::lock_guard lock(mutex_);
        peers_.push_back(peer);
        serving_.emplace_back([this, peer] { serve(*peer); });
      }
    });
  }
  ~RawAsked() {
    acceptor_.end(ended_, thread_);
    for (const auto& peer : peers_) peer->shutDown();
    for (std::thread& serving : serving_) serving.join();
  }
  [[nodiscard]] PeerIdentity identity() const { return acceptor_.identity("asked"); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void serve(RawPeer& peer) {
    if (!peer.welcome("asked")) return;
    while (const auto frame = peer.frame()) {
      const std::uint64_t id = frame->header.requestId;
      if (frame->header.type == FrameType::kPing) {
        peer.send(encodeEmptyFrame(FrameType::kPong, id));
      } else if (frame->header.type == FrameType::kControlRequest) {
        const auto request = decodeBody<ControlRequest>(frame->body);
        ControlAnswer answer;
        answer.type = kRdmaConnect;
        answer.body = body_(request->body);
        peer.send(encodeFrame(answer, id));
      } else if (frame->header.type == FrameType::kReadRequest) {
        const auto request = decodeBody<ReadRequest>(frame->body);
        const auto part = std::span(bytes_).subspan(request->offset, request->length);
        ReadAnswer answer;
        answer.payloadLength = request->length;
        answer.blockChecksums = crc32cOfBlocks(part, kBlockBytes);
        peer.send(encodeFrame(answer, id));
        peer.send(part);
      }
    }
  }

  const Body body_;
  const std::vector<std::byte> bytes_;
  RawAcceptor acceptor_;
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<RawPeer>> peers_;
  std::vector<std::thread> serving_;
  std::thread thread_;
};

class RdmaHostileTest : public RdmaPair {
 protected:
  // An honest agent a that reads from `asked`.
  void startWith(const RawAsked& asked) {
    portsOfA_ = devices({{.name = "a0", .address = 1}});
    a_ = node("a", portsOfA_);
    a_->setPeers({asked.identity()});
    into_ = *MemoryRegion::allocate(kChunkBytes);
    ASSERT_TRUE(into_->registrationWith(portsOfA_.front()).ok());
  }
  // A chunk of `asked`, whatever it does over RDMA.
  void expectRead(const RawAsked& asked) {
    std::ranges::fill(into_->bytes(), std::byte{0});
    std::vector<std::uint32_t> checksums;
    const Status status = a_->await([&] {
      return a_->transport->read("asked", keyOf(kPlain), 0, MemorySlice{into_, 0, kChunkBytes},
                                 checksums, Clock::now() + kHang, RequestClass::kDemand);
    });
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(std::ranges::equal(into_->bytes(), asked.bytes()));
  }
  // Reads until RDMA has failed with such a reason.
  bool failsWith(const RawAsked& asked, const std::string& reason) {
    std::string last;
    const bool failed = a_->eventually("asked", [&](const PeerStatistics& of) {
      expectRead(asked);
      last = of.rdmaRails.empty() ? "" : of.rdmaRails[0].error;
      return last.find(reason) != std::string::npos;
    });
    EXPECT_TRUE(failed) << last;
    return failed;
  }
  static std::vector<std::byte> withPort(std::vector<std::byte> address, std::uint32_t port) {
    ByteWriter out(address);
    out.u32(port);
    return address;
  }
};

EndpointAddress plausible() {
  EndpointAddress address;
  address.mtuBytes = 4096;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 99};
  address.queuePair = 0x4711;
  address.receives = 72;
  address.receiveBytes = kRdmaMessageBytes;
  return address;
}

TEST_F(RdmaHostileTest, AddressesThatCannotBeAreReasons) {
  const auto expectReason = [&](const char* reason, std::vector<std::byte> body) {
    const RawAsked asked([body = std::move(body)](auto) { return body; });
    startWith(asked);
    EXPECT_TRUE(failsWith(asked, reason)) << reason;
    a_.reset();
  };
  const auto changed = [](auto change) {
    EndpointAddress address = plausible();
    change(address);
    return encode(address);
  };
  expectReason("MTU", changed([](EndpointAddress& of) { of.mtuBytes = 9000; }));
  expectReason("queue pair", changed([](EndpointAddress& of) { of.queuePair = 0; }));
  expectReason("packet number", changed([](EndpointAddress& of) { of.firstPacket = ~0u; }));
  expectReason("GID", changed([](EndpointAddress& of) { of.gid = {}; }));
  expectReason("InfiniBand",
               changed([](EndpointAddress& of) { of.link = LinkLayer::kInfiniBand; }));
  expectReason("takes no RDMA message", changed([](EndpointAddress& of) { of.receiveBytes = 16; }));
  expectReason("impossible length", {std::byte{1}, std::byte{2}});
}

TEST_F(RdmaHostileTest, AnAddressWhereNobodyIsIsAReason) {
  const RawAsked asked([](auto) { return encode(plausible()); });
  startWith(asked);
  EXPECT_TRUE(failsWith(asked, "does not answer"));
}

// An asked agent whose endpoint answers reads as `misbehave` says.
struct Misbehaving {
  using Misbehave = std::function<void(RawEndpoint&, std::uint64_t id, const ReadRequest&)>;

  Misbehaving(Fabric& fabric, Misbehave misbehave)
      : asked([this, &fabric, misbehave = std::move(misbehave)](auto body) {
          auto made = std::make_unique<RawEndpoint>(
              fabric, PortOptions{.name = "evil", .address = 66},
              [misbehave](RawEndpoint& self, std::span<const std::byte> message) {
                const auto header = decodeHeader(message.first(kFrameHeaderBytes));
                if (header->type == FrameType::kPing)
                  return self.send(encodeEmptyFrame(FrameType::kPong, header->requestId));
                const auto request = decodeBody<ReadRequest>(message.subspan(kFrameHeaderBytes));
                if (request.ok()) misbehave(self, header->requestId, *request);
              });
          EXPECT_TRUE(made->connect(*decodeEndpointAddress(body)).ok());
          const EndpointAddress address = made->address();
          endpoints.push_back(std::move(made));
          return encode(address);
        }) {}

  std::vector<std::unique_ptr<RawEndpoint>> endpoints;
  RawAsked asked;
};

ReadAnswer answerTo(const ReadRequest& request) {
  ReadAnswer answer;
  answer.payloadLength = request.length;
  answer.blockChecksums.resize(blocksOf(request.length));
  return answer;
}

TEST_F(RdmaHostileTest, AWriteOutsideTheWindowFailsTheEndpoint) {
  silence_ = kShortSilence;
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t, const ReadRequest& request) {
    const MemoryDescriptor& target = *request.target;
    self.write(target.address + 1, static_cast<std::uint32_t>(target.keys[0].key), target.length);
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return of.rdmaFailures >= 1;
  }));
}

TEST_F(RdmaHostileTest, AnAnswerWithoutItsBytesIsCorrupt) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t id, const ReadRequest& request) {
    self.send(encodeFrame(answerTo(request), id));
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return !of.rdmaRails.empty() && of.rdmaRails[0].retries >= 2;
  }));
}

TEST_F(RdmaHostileTest, AnotherLengthIsNoAnswer) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t id, const ReadRequest& request) {
    ReadAnswer answer = answerTo(request);
    --answer.payloadLength;
    self.send(encodeFrame(answer, id));
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return !of.rdmaRails.empty() && of.rdmaRails[0].retries >= 2;
  }));
}

TEST_F(RdmaHostileTest, AnAnswerThatNobodyAskedForFailsTheEndpoint) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t id, const ReadRequest& request) {
    self.send(encodeFrame(answerTo(request), id + 1000));
  });
  startWith(evil.asked);
  EXPECT_TRUE(failsWith(evil.asked, "belongs to no request"));
}

TEST_F(RdmaHostileTest, BytesThatAreNoFrameFailTheEndpoint) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t, const ReadRequest&) {
    self.send(std::vector<std::byte>(100, std::byte{0x5a}));
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return of.rdmaFailures >= 1;
  }));
}

TEST_F(RdmaHostileTest, AnEndpointThatTakesNothingAnyMoreIsGivenUp) {
  silence_ = kShortSilence;
  Misbehaving evil(fabric_,
                   [](RawEndpoint& self, std::uint64_t, const ReadRequest&) { self.deafen(); });
  startWith(evil.asked);
  EXPECT_TRUE(failsWith(evil.asked, "nothing has come over the RDMA endpoint"));
}

// A dialler that has proved who it is, and says what it likes.
class RdmaHostileDiallerTest : public RdmaHostileTest {
 protected:
  void startAsked() {
    b_ = node("b", devices({{.name = "b0", .address = 2}}));
    into_ = *MemoryRegion::allocate(kBlockBytes);
  }
  PeerAddress address() { return b_->listeners[0]->address(); }
  // What the agent answers to one who asks for an endpoint with this body.
  std::optional<ControlAnswer> ask(RawPeer& peer, std::vector<std::byte> body) {
    if (!peer.send(encodeFrame(ControlRequest{kRdmaConnect, std::move(body)}, ++lastId_)))
      return std::nullopt;
    return peer.expect<ControlAnswer>();
  }
  // Connects an endpoint to the agent's.
  std::unique_ptr<RawEndpoint> endpoint(RawPeer& peer) {
    auto made = std::make_unique<RawEndpoint>(
        fabric_, PortOptions{.name = "evil", .address = 66},
        [this](RawEndpoint&, std::span<const std::byte>) { ++answers_; });
    EXPECT_TRUE(peer.join("evil"));
    const auto answer = ask(peer, encode(made->address()));
    EXPECT_TRUE(answer && answer->code == ErrorCode::kOk);
    EXPECT_TRUE(made->connect(*decodeEndpointAddress(answer->body)).ok());
    return made;
  }
  // The agent ends the endpoint, which hears of it by what it sends, and goes on serving.
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
  // One where nobody is can only be found out by data.
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
