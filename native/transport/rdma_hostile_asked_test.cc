// Messages of a broken or hostile agent over its RDMA endpoint, or about it, to an agent that asks
// it: the endpoint ends with a reason, reads go on over TCP with the right bytes, and no memory
// outside a window changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "transport/raw_endpoint.h"
#include "transport/raw_peer.h"

namespace hearth {
namespace {

// The agent that is asked, honest over TCP alone.
class RawAsked {
 public:
  // `body`: the answer's body when the other agent asks for an endpoint.
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

class RdmaHostileAskedTest : public RdmaPair {
 protected:
  // An honest agent a that reads from `asked`.
  void startWith(const RawAsked& asked) {
    portsOfA_ = devices({{.name = "a0", .address = 1}});
    a_ = node("a", portsOfA_);
    a_->setPeers({asked.identity()});
    into_ = *MemoryRegion::allocate(kChunkBytes);
    ASSERT_TRUE(into_->registrationWith(portsOfA_.front()).ok());
  }
  // Reads a chunk of `asked`, whatever that does over RDMA.
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
};

TEST_F(RdmaHostileAskedTest, AddressesThatCannotBeAreReasons) {
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

TEST_F(RdmaHostileAskedTest, AnAddressWhereNobodyIsIsAReason) {
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

TEST_F(RdmaHostileAskedTest, AWriteOutsideTheWindowFailsTheEndpoint) {
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

TEST_F(RdmaHostileAskedTest, AnAnswerWithoutItsBytesIsCorrupt) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t id, const ReadRequest& request) {
    self.send(encodeFrame(answerTo(request), id));
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return !of.rdmaRails.empty() && of.rdmaRails[0].retries >= 2;
  }));
}

TEST_F(RdmaHostileAskedTest, AnotherLengthIsNoAnswer) {
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

TEST_F(RdmaHostileAskedTest, AnAnswerThatNobodyAskedForFailsTheEndpoint) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t id, const ReadRequest& request) {
    self.send(encodeFrame(answerTo(request), id + 1000));
  });
  startWith(evil.asked);
  EXPECT_TRUE(failsWith(evil.asked, "belongs to no request"));
}

TEST_F(RdmaHostileAskedTest, BytesThatAreNoFrameFailTheEndpoint) {
  Misbehaving evil(fabric_, [](RawEndpoint& self, std::uint64_t, const ReadRequest&) {
    self.send(std::vector<std::byte>(100, std::byte{0x5a}));
  });
  startWith(evil.asked);
  EXPECT_TRUE(a_->eventually("asked", [&](const PeerStatistics& of) {
    expectRead(evil.asked);
    return of.rdmaFailures >= 1;
  }));
}

TEST_F(RdmaHostileAskedTest, AnEndpointThatTakesNothingAnyMoreIsGivenUp) {
  silence_ = kShortSilence;
  Misbehaving evil(fabric_,
                   [](RawEndpoint& self, std::uint64_t, const ReadRequest&) { self.deafen(); });
  startWith(evil.asked);
  EXPECT_TRUE(failsWith(evil.asked, "nothing has come over the RDMA endpoint"));
}

}  // namespace
}  // namespace hearth
