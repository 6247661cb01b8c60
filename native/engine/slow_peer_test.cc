// A peer that asks and does not read.
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include "engine/testing_cluster.h"
#include "transport/raw_peer.h"

namespace hearth::testing_cluster {
namespace {

// Asks on several connections for each chunk as soon as it has come, and reads nothing.
class DeafAsker {
 public:
  explicit DeafAsker(const Agent& agent) {
    for (int i = 0; i < 4; ++i) {
      peers_.push_back(std::make_unique<RawPeer>(agent.member().identity.addresses.front()));
      const int little = 4096;
      setsockopt(peers_.back()->fd(), SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
      EXPECT_TRUE(peers_.back()->join("deaf", std::vector<std::byte>(32, std::byte{7})));
    }
  }
  // No more requests than every connection has credit for.
  void ask(const ContentKey& key, std::uint64_t chunk) {
    if (next_ >= peers_.size() * 15) return;
    RawPeer& peer = *peers_[next_++ % peers_.size()];
    peer.send(encodeFrame(ReadRequest{key, chunk * kChunkBytes, kChunkBytes, 60'000}, next_));
  }
  // True: the other side has given up none of the connections.
  [[nodiscard]] bool connected() const {
    for (const auto& peer : peers_) {
      tcp_info info{};
      socklen_t size = sizeof info;
      getsockopt(peer->fd(), IPPROTO_TCP, TCP_INFO, &info, &size);
      if (info.tcpi_state != TCP_ESTABLISHED) return false;
    }
    return true;
  }

 private:
  std::vector<std::unique_ptr<RawPeer>> peers_;
  std::uint64_t next_ = 0;
};

TEST(SlowPeer, FetchingGoesOnWhileAPeerDoesNotRead) {
  Origin origin;
  origin.add("model", 60 * kChunkBytes);
  // The agent gives up such a connection after three probes: later than a busy machine has fetched
  // all.
  Agent agent("a", [](EngineOptions& options) {
    options.transport = [](Reactor& reactor, TransportOptions transport, PeerHandler& handler) {
      transport.idleProbe = std::chrono::minutes(1);
      return PeerTransport::create(reactor, std::move(transport), handler);
    };
  });
  DeafAsker deaf(agent);
  const auto dataset = agent.add(origin);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  agent.beginWarm(dataset);
  std::uint64_t asked = 0;
  for (;;) {
    const WarmProgress progress = agent.engine().findJob("warm")->progress();
    if (progress.state != WarmState::kRunning) break;
    if (const std::uint64_t come = progress.bytesReady / kChunkBytes; come > asked)
      deaf.ask(key, asked++);
    if (!deaf.connected()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(deaf.connected()) << "fetching waited until the peer was given up";
  EXPECT_GT(asked, 20u);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

}  // namespace
}  // namespace hearth::testing_cluster
