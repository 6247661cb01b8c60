// Agents that go, contexts that are closed under way, children.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "base/testing/sanitizers.h"
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

TEST_F(FailuresTest, MemoryThatIsUnmappedInFlightIsAStatusAndHarmsNoOtherRead) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  Agent agent("agent", [this](EngineOptions& given) {
    if (port != 0) given.listen = {{"127.0.0.1", port}};
  });
  serve(agent);
  port = agent.engine().addresses().front().port;
  open(addressOf(agent));
  expectWhole();
  agent.stop();
  // In flight, since no agent answers them: of many parts, of one that comes in one piece with its
  // header, and one whose memory stays.
  void* const gone =
      mmap(nullptr, kModelBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  std::vector<char> stays(kModelBytes);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, gone, kModelBytes, nullptr);
  xfer_gd2fs_iomem* const other = xfer_gd2fs_reg_iomem(ctx, stays.data(), kModelBytes, nullptr);
  const xfer_gd2fs_sge large{gone, kModelBytes, iomem}, small{gone, 4096, iomem};
  const xfer_gd2fs_sge sound{stays.data(), kModelBytes, other};
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, gone, path.c_str(), 0, &large, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, gone, path.c_str(), 0, &small, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_fstat(ctx, gone, path.c_str(), static_cast<xfer_gd2fs_stat*>(gone)), 0);
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, stays.data(), path.c_str(), 0, &sound, 1, 0), 0);
  ASSERT_EQ(munmap(gone, kModelBytes), 0);
  // Nobody else gets these addresses, as what the agent maps when it starts would.
  ASSERT_EQ(mmap(gone, kModelBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            gone);
  agent.start();
  serve(agent);
  for (int i = 0; i < 4; ++i) {
    const xfer_gd2fs_completion done = next();
    EXPECT_EQ(XFER_GD2FS_STATUS_CODE(done.status), done.id == gone ? unsigned{EFAULT} : 0u);
    EXPECT_EQ(done.value, done.id == gone ? 0 : kModelBytes);
  }
  EXPECT_TRUE(std::ranges::equal(stays, expected));
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0);
  munmap(gone, kModelBytes);
  expectWhole();
}

// Requests that stay in flight, since no agent answers them.
struct ClosingTest : FailuresTest {
  static constexpr int kRequests = 50;

  ClosingTest() {
    serve(agent);
    open(addressOf(agent));
    expectWhole();
    agent.stop();
    bytes.resize(kModelBytes);
    iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr);
  }
  int submit(std::size_t size = kModelBytes) {
    const xfer_gd2fs_sge sge{bytes.data(), size, iomem};
    return static_cast<int>(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 0, &sge, 1, 0));
  }
  // Takes all completions, each of them a cancelled request's, and gives their number.
  static int drain(xfer_gd2fs_ctx* from) {
    int count = 0, got = 0;
    xfer_gd2fs_completion done{};
    while ((got = xfer_gd2fs_wait(from, &done, 1, -1)) == 1) {
      EXPECT_EQ(XFER_GD2FS_STATUS_CODE(done.status), static_cast<unsigned>(ECANCELED));
      EXPECT_EQ(done.value, 0u);
      ++count;
    }
    EXPECT_EQ(got, -EBADF);
    return count;
  }

  Agent agent{"agent"};
  std::vector<char> bytes;
  xfer_gd2fs_iomem* iomem = nullptr;
};

TEST_F(ClosingTest, ThreadsThatWaitTakeEachCompletion) {
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(submit(), 0);
  std::atomic<int> taken{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 2; ++i) waiters.emplace_back([&] { taken += drain(ctx); });
  xfer_gd2fs_close(ctx);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(taken, kRequests);
  EXPECT_EQ(drain(ctx), 0);
}

TEST_F(ClosingTest, CompletionsStayUntilTheyAreTaken) {
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(submit(), 0);
  xfer_gd2fs_close(ctx);
  xfer_gd2fs_close(ctx);
  EXPECT_EQ(submit(), -EBADF);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), -EBADF);
  EXPECT_EQ(drain(ctx), kRequests);
  EXPECT_EQ(drain(ctx), 0);
}

TEST_F(ClosingTest, WhatIsSubmittedMeanwhileIsRefusedOrEndsOnce) {
  std::atomic<int> accepted{0};
  std::vector<std::thread> submitting;
  for (int i = 0; i < 3; ++i) {
    submitting.emplace_back([&] {
      for (int result = 0; result != -EBADF;) {
        result = submit(1);
        if (result == 0) {
          ++accepted;
        } else {
          EXPECT_TRUE(result == -EAGAIN || result == -EBADF) << result;
        }
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return accepted >= kRequests; }));
  xfer_gd2fs_close(ctx);
  for (std::thread& each : submitting) each.join();
  EXPECT_EQ(drain(ctx), accepted);
}

TEST_F(FailuresTest, DrainingWaitsForTheRequestsThatUseTheMemory) {
  Agent agent("agent", [this](EngineOptions& given) {
    if (port != 0) given.listen = {{"127.0.0.1", port}};
  });
  serve(agent);
  port = agent.engine().addresses().front().port;
  open(addressOf(agent));
  std::vector<char> bytes(kModelBytes);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), kModelBytes, nullptr);
  const xfer_gd2fs_sge sge{bytes.data(), kModelBytes, iomem};
  EXPECT_EQ(xfer_gd2fs_drain(ctx, iomem, -1), 0);
  agent.stop();
  ASSERT_EQ(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 0, &sge, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_drain(ctx, iomem, 20), -ETIMEDOUT);
  agent.start();
  serve(agent);
  EXPECT_EQ(xfer_gd2fs_drain(ctx, iomem, -1), 0);
  xfer_gd2fs_completion done{};
  ASSERT_EQ(xfer_gd2fs_wait(ctx, &done, 1, 0), 1) << "the completion has come before";
  EXPECT_EQ(done.status, 0u);
  EXPECT_TRUE(XFER_GD2FS_IS_QUIESCENT(done));
  EXPECT_TRUE(std::ranges::equal(bytes, expected));
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0);
  EXPECT_EQ(xfer_gd2fs_drain(ctx, iomem, -1), -EINVAL);
  xfer_gd2fs_close(ctx);
  EXPECT_EQ(xfer_gd2fs_drain(std::exchange(ctx, nullptr), iomem, -1), -EBADF);
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
