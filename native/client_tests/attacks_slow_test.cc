// A reader beside pods that attack its agent: it keeps its speed. Measures time.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include "client_tests/testing_client.h"
#include "transport/raw_peer.h"
#include "wire/client_message.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kAttackedBytes = 16 * kChunkBytes;

struct AttacksTest : ClientTest {
  AttacksTest() {
    raiseFileLimit();
    setenv("HEARTH_CLIENTS_SOCKET", "", 1);
    origin.add("model", kAttackedBytes);
    const std::shared_ptr<Dataset> dataset = agent.add(origin);
    agent.engine().nameDatasets({{"llm", dataset}});
    useToken(ofPod("reader"));
    open(addressOf(agent));
    agent.beginWarm(dataset);
    EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  }
  ~AttacksTest() override { unsetenv("HEARTH_CLIENTS_SOCKET"); }

  static void raiseFileLimit() {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  static Capability ofPod(const std::string& pod) {
    Capability capability = capabilityOf({"llm"});
    capability.podNamespace = pod;
    capability.pod = pod;
    return capability;
  }
  // Bytes a second of the fastest of several reads of the whole file.
  double speed() {
    double best = 0;
    for (int i = 0; i < 40; ++i) {
      const Clock::time_point begun = Clock::now();
      EXPECT_EQ(read("/dataset/llm/model", 0, kAttackedBytes).status, 0u);
      const std::chrono::duration<double> took = Clock::now() - begun;
      best = std::max(best, double{kAttackedBytes} / took.count());
    }
    return best;
  }
  std::unique_ptr<RawPeer> attacker() {
    auto peer = std::make_unique<RawPeer>(agent.engine().addresses().front());
    EXPECT_TRUE(peer->joinAsClient(token, "random-" + std::to_string(++names)));
    return peer;
  }
  ContentKey keyOfModel() {
    const auto peer = attacker();
    EXPECT_TRUE(peer->expect<Credit>());
    ControlRequest resolve;
    resolve.type = static_cast<std::uint16_t>(ClientMessage::kResolve);
    resolve.body = encodePath("/dataset/llm/model");
    EXPECT_TRUE(peer->send(encodeFrame(resolve, 1)));
    const std::optional<ControlAnswer> answer = peer->expect<ControlAnswer>();
    return decodeResolvedPath(answer->body)->key;
  }

  Origin origin;
  Agent agent{"agent"};
  const CapabilityToken token = *signCapability(ofPod("attacker"), kSecret);
  int names = 0;
};

TEST_F(AttacksTest, TenThousandConnectionsUnderRandomNames) {
  const double alone = speed();
  std::vector<std::unique_ptr<RawPeer>> held;
  for (int i = 0; i < 10'000; ++i) {
    std::unique_ptr<RawPeer> peer = attacker();
    const std::optional<RawPeer::Got> got = peer->frame();
    if (got && got->header.type == FrameType::kCredit) held.push_back(std::move(peer));
  }
  EXPECT_LE(held.size(), 512u);
  const double beside = speed();
  RecordProperty("kept", std::to_string(beside / alone));
  EXPECT_GE(beside, 0.8 * alone);
}

TEST_F(AttacksTest, TokensOfAnotherNodeOfAnotherNamespaceAndRevoked) {
  agent.await(revoke(agent.engine(), {.pods = {"revoked/revoked"}}));
  Capability ofAnotherNode = ofPod("attacker"), ofAnotherNamespace = ofPod("attacker");
  ofAnotherNode.nodes = {"elsewhere"};
  ofAnotherNamespace.datasets = {"theirs"};
  std::vector<CapabilityToken> tokens;
  for (const Capability& each : {ofAnotherNode, ofPod("revoked"), ofAnotherNamespace})
    tokens.push_back(*signCapability(each, kSecret));
  ControlRequest resolve;
  resolve.type = static_cast<std::uint16_t>(ClientMessage::kResolve);
  resolve.body = encodePath("/dataset/llm/model");
  const double alone = speed();
  std::atomic<bool> over{false};
  std::atomic<int> refused{0}, taken{0};
  std::thread attacking([&] {
    for (std::size_t i = 0; !over; ++i) {
      RawPeer peer(agent.engine().addresses().front());
      if (!peer.joinAsClient(tokens[i % tokens.size()], "attacker")) {
        ++refused;
        continue;
      }
      const bool asked = peer.expect<Credit>() && peer.send(encodeFrame(resolve, 1));
      const auto answer = asked ? peer.expect<ControlAnswer>() : std::nullopt;
      ++(answer && answer->code == ErrorCode::kPermissionDenied ? refused : taken);
    }
  });
  const double beside = speed();
  over = true;
  attacking.join();
  EXPECT_EQ(taken, 0);
  EXPECT_GT(refused, 0);
  RecordProperty("kept", std::to_string(beside / alone));
  EXPECT_GE(beside, 0.8 * alone);
}

TEST_F(AttacksTest, ReadersThatTrickle) {
  const double alone = speed();
  const ContentKey key = keyOfModel();
  std::vector<std::unique_ptr<RawPeer>> slow;
  for (int i = 0; i < 64; ++i) {
    slow.push_back(attacker());
    ASSERT_TRUE(slow.back()->expect<Credit>());
    for (std::uint64_t chunk = 0; chunk < 16; ++chunk) {
      const ReadRequest request{key, chunk * kChunkBytes, kChunkBytes, 600'000};
      ASSERT_TRUE(slow.back()->send(encodeFrame(request, chunk + 1)));
    }
  }
  std::atomic<bool> over{false};
  std::thread trickling([&] {
    while (!over) {
      std::array<std::byte, 16> bytes;
      for (const auto& peer : slow) recv(peer->fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const double beside = speed();
  over = true;
  trickling.join();
  RecordProperty("kept", std::to_string(beside / alone));
  EXPECT_GE(beside, 0.8 * alone);
}

}  // namespace
}  // namespace hearth::testing_client
