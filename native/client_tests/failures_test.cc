// Agents that go, contexts that are closed under way, children.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kModelBytes = 5 * kChunkBytes + 777;

struct FailuresTest : ClientTest {
  FailuresTest() {
    origin.add("model", kModelBytes);
    expected = origin.bytesOf("model");
    useToken(capabilityOf({"llm"}));
  }
  void serve(Agent& agent) { agent.engine().nameDatasets({{"llm", agent.add(origin)}}); }
  void expectWhole() {
    const xfer_gd2fs_completion done = read(path, 0, kModelBytes);
    ASSERT_EQ(done.status, 0u) << XFER_GD2FS_STATUS_CODE(done.status);
    EXPECT_EQ(done.value, kModelBytes);
    EXPECT_TRUE(memory == expected);
  }

  const std::string path = "/dataset/llm/model";
  Origin origin;
  std::string expected;
  std::uint16_t port = 0;
};

TEST_F(FailuresTest, AgentsThatGoInTurnLoseNoRequest) {
  std::vector<std::unique_ptr<Agent>> agents;
  std::vector<Agent*> all;
  std::string addresses;
  for (const char* const name : {"one", "two", "three"}) {
    agents.push_back(std::make_unique<Agent>(name));
    all.push_back(agents.back().get());
    serve(*agents.back());
    addresses += (addresses.empty() ? "" : ",") + addressOf(*agents.back());
  }
  connect(all);
  open(addresses);
  expectWhole();
  // Reads go on while two of the three stop under them.
  std::atomic<bool> stopped{false};
  std::thread stopping([&] {
    agents[0]->stop();
    agents[1]->stop();
    stopped = true;
  });
  do {
    expectWhole();
  } while (!stopped);
  stopping.join();
  expectWhole();
}

TEST_F(FailuresTest, AnAgentThatComesBackAnswersWhatWaits) {
  Agent agent("agent", [this](EngineOptions& given) {
    if (port != 0) given.listen = {{"127.0.0.1", port}};
  });
  serve(agent);
  port = agent.engine().addresses().front().port;
  open(addressOf(agent));
  expectWhole();
  agent.stop();
  std::vector<char> bytes(kModelBytes);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), kModelBytes, nullptr);
  const xfer_gd2fs_sge sge{bytes.data(), kModelBytes, iomem};
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 0, &sge, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), -EBUSY);
  agent.start();
  serve(agent);
  const xfer_gd2fs_completion done = next();
  EXPECT_EQ(done.status, 0u) << XFER_GD2FS_STATUS_CODE(done.status);
  EXPECT_TRUE(std::ranges::equal(bytes, expected));
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0);
}

TEST_F(FailuresTest, AddressesThatAreDownArePassedOver) {
  Agent gone("gone"), agent("agent");
  serve(agent);
  const std::string addresses = addressOf(gone) + "," + addressOf(agent);
  gone.stop();
  open(addresses);
  expectWhole();
}

TEST_F(FailuresTest, WhenAllAddressesAreDownThatIsSaid) {
  Agent gone("gone");
  const std::string address = addressOf(gone);
  serve(gone);
  xfer_gd2fs_options given = options(address);
  given.timeout = 300;
  ctx = xfer_gd2fs_connect(&given);
  ASSERT_NE(ctx, nullptr);
  gone.stop();
  const xfer_gd2fs_completion done = read(path, 0, kModelBytes);
  EXPECT_NE(done.status, 0u);
  EXPECT_EQ(XFER_GD2FS_STATUS_CLASS(done.status), XFER_GD2FS_CLASS_CLUSTER);
  EXPECT_EQ(done.value, 0u);
  EXPECT_EQ(xfer_gd2fs_connect(&given), nullptr);
  EXPECT_EQ(errno, EHOSTUNREACH);
}

TEST_F(FailuresTest, ClosingEndsWhatIsInFlightAndThoseWhoWait) {
  Agent agent("agent");
  serve(agent);
  open(addressOf(agent));
  expectWhole();
  agent.stop();  // so that requests stay in flight
  constexpr int kRequests = 50;
  std::vector<char> bytes(kModelBytes);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), kModelBytes, nullptr);
  const xfer_gd2fs_sge sge{bytes.data(), kModelBytes, iomem};
  for (int i = 0; i < kRequests; ++i)
    ASSERT_EQ(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 0, &sge, 1, 0), 0);
  std::atomic<int> cancelled{0}, waiting{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&] {
      xfer_gd2fs_completion done{};
      ++waiting;
      int got = 0;
      while ((got = xfer_gd2fs_wait(ctx, &done, 1, -1)) == 1) {
        EXPECT_EQ(XFER_GD2FS_STATUS_CODE(done.status), static_cast<unsigned>(ECANCELED));
        ++cancelled;
      }
      EXPECT_EQ(got, -EBADF);
    });
  }
  EXPECT_TRUE(eventually([&] { return waiting == 2; }));
  xfer_gd2fs_close(ctx);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_LE(cancelled, kRequests);
  ctx = nullptr;
}

TEST_F(FailuresTest, AChildIsRefusedItsParentsContext) {
  Agent agent("agent");
  serve(agent);
  open(addressOf(agent));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    xfer_gd2fs_stat st{};
    xfer_gd2fs_completion done{};
    const bool refused = xfer_gd2fs_fstat(ctx, nullptr, path.c_str(), &st) == -EBADF &&
                         xfer_gd2fs_wait(ctx, &done, 1, -1) == -EBADF;
    xfer_gd2fs_close(ctx);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expectWhole();
}

}  // namespace
}  // namespace hearth::testing_client
