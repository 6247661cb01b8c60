// Reads of files that the agent of the same node has whole: by a descriptor, without its network.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "base/testing/pod_attack.h"
#include "base/testing/sanitizers.h"
#include "client_tests/testing_client.h"
#include "mount/idmapped_mount.h"
#include "transport/local_link.h"
#include "wire/client_message.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kSameNodeBytes = 2 * kChunkBytes + 4321;
constexpr std::uint64_t kCacheBudget = 64u << 20;

struct SameNodeTest : ClientTest {
  SameNodeTest() {
    setenv("HEARTH_CLIENTS_SOCKET", folder.path("agent.sock").c_str(), 1);
    origin.add("model", kSameNodeBytes);
    expected = origin.bytesOf("model");
    dataset = agent->add(origin);
    agent->engine().nameDatasets({{"llm", dataset}});
    useToken(capabilityOf({"llm"}));
  }
  ~SameNodeTest() override { unsetenv("HEARTH_CLIENTS_SOCKET"); }
  void SetUp() override {
    // Without such mounts no descriptor is passed.
    const Result<OwnedFd> mount = makeIdmapped(cache.path());
    if (!mount.ok()) GTEST_SKIP() << mount.error().message;
  }
  void warm() {
    agent->beginWarm(dataset);
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
  void expectRead(std::uint64_t offset, std::size_t size) {
    const xfer_gd2fs_completion done = read("/dataset/llm/model", offset, size);
    ASSERT_EQ(done.status, 0u) << XFER_GD2FS_STATUS_CODE(done.status);
    EXPECT_EQ(memory.substr(0, done.value), expected.substr(offset, size)) << offset;
  }
  // Files that were evicted.
  std::uint64_t evict() {
    return agent->await(agent->engine().contents().evict(dataset, std::nullopt)).filesFreed;
  }
  // Of the requests that come over the network.
  std::uint64_t bytesSent() {
    std::uint64_t sent = 0;
    for (const PeerStatistics& peer : agent->await(agent->engine().statistics()).peers)
      if (peer.node == "clients") sent += peer.bytesSent;
    return sent;
  }
  // That lead to the file, in this process, where the agent is as well.
  [[nodiscard]] std::size_t openDescriptors() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      struct stat about {};
      if (stat(entry.path().c_str(), &about) == 0 && about.st_size == off_t{kSameNodeBytes})
        ++count;
    }
    return count;
  }

  TemporaryFolder folder, cache;
  Origin origin;
  std::string expected;
  std::unique_ptr<Agent> agent = std::make_unique<Agent>(
      "agent", kCacheBudget, [](EngineEvent) {}, cache.path(),
      [this](EngineOptions& options) { options.clientSocket = folder.path("agent.sock"); });
  std::shared_ptr<Dataset> dataset;
};

TEST_F(SameNodeTest, WholeFilesAreReadWithoutTheNetwork) {
  warm();
  open(addressOf(*agent));
  expectRead(0, kSameNodeBytes);
  const std::uint64_t before = bytesSent();
  for (const std::uint64_t offset : {0ul, 1ul, kChunkBytes - 1, kSameNodeBytes - 5})
    expectRead(offset, kChunkBytes + 3);
  // The path may have been resolved anew; no bytes of the file have come.
  EXPECT_LT(bytesSent() - before, 10'000u);
}

TEST_F(SameNodeTest, MemoryThatCannotBeWrittenIsAStatusAndSparesTheFile) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  warm();
  open(addressOf(*agent));
  expectRead(0, kSameNodeBytes);
  const std::uint64_t before = bytesSent();
  void* const closed = mmap(nullptr, kSameNodeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, closed, kSameNodeBytes, nullptr);
  const xfer_gd2fs_sge sge{closed, kSameNodeBytes, iomem};
  ASSERT_EQ(xfer_gd2fs_preadv(ctx, nullptr, "/dataset/llm/model", 0, &sge, 1, 0), 0);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(next().status), unsigned{EFAULT});
  expectRead(0, kSameNodeBytes);
  EXPECT_LT(bytesSent() - before, 10'000u) << "the file is read here as before";
  munmap(closed, kSameNodeBytes);
}

TEST_F(SameNodeTest, FilesInPartsAreReadOverTheNetworkUntilTheyAreWhole) {
  open(addressOf(*agent));
  expectRead(5, 100);
  EXPECT_GT(bytesSent(), 0u);
  warm();
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t before = bytesSent();
    expectRead(0, kSameNodeBytes);
    return bytesSent() - before < 10'000u;
  }));
}

TEST_F(SameNodeTest, ADescriptorIsGivenBackWhenTheContextEnds) {
  warm();
  open(addressOf(*agent));
  expectRead(0, kSameNodeBytes);
  EXPECT_EQ(evict(), 0u) << "a client reads it";
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  EXPECT_TRUE(eventually([&] { return evict() == 1; }));
}

TEST_F(SameNodeTest, AnAgentThatRestartsPassesFilesAgain) {
  warm();
  open(addressOf(*agent));
  expectRead(0, kSameNodeBytes);
  agent->stop();
  EXPECT_TRUE(eventually([&] { return openDescriptors() == 0; })) << "its files are closed";
  agent->start();
  agent->engine().nameDatasets({{"llm", dataset = agent->add(origin)}});
  // Its port is another one.
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  open(addressOf(*agent));
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t before = bytesSent();
    expectRead(0, kSameNodeBytes);
    return bytesSent() - before < 10'000u;
  }));
}

TEST_F(SameNodeTest, AFileThatBecomesShorterIsReadOverTheNetwork) {
  warm();
  open(addressOf(*agent));
  expectRead(0, kSameNodeBytes);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path())) {
    if (!entry.is_regular_file() || entry.file_size() != kSameNodeBytes) continue;
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
    std::filesystem::resize_file(entry.path(), kSameNodeBytes / 2);
  }
  expectRead(0, kSameNodeBytes);
}

// A program that speaks with the agent's socket by itself.
struct LocalLinkTest : SameNodeTest {
  LocalLinkTest() {
    thread = std::thread([this] { reactor->run(); });
  }
  ~LocalLinkTest() override {
    runOn(*reactor, close(*this));
    reactor->stop();
    thread.join();
  }
  static Task<bool> close(LocalLinkTest& test) {
    if (test.link != nullptr) test.link->end();
    co_await test.gate.close();
    co_return true;
  }
  // Of the dialling.
  ErrorCode dial(const Capability& capability, const std::vector<std::byte>& secret = kSecret) {
    LocalLinkOptions options{folder.path("agent.sock"), "program", "test",
                             *signCapability(capability, secret)};
    Result<std::shared_ptr<LocalLink>> dialled =
        runOn(*reactor, LocalLink::dial(*reactor, gate, options, [this] { ended = true; }));
    if (dialled.ok()) link = *dialled;
    return dialled.code();
  }
  Result<LocalLink::Answer> ask(const std::string& path) {
    return runOn(*reactor, askOnce(*link, path));
  }
  void hangUp() {
    ended = false;
    runOn(*reactor, end(*link));
    EXPECT_TRUE(eventually([&] { return ended.load(); }));
  }
  static Task<bool> end(LocalLink& link) {
    link.end();
    co_return true;
  }
  // Returns when the agent has heard it.
  void giveBack(const LocalLink::Answer& answer) {
    runOn(*reactor, sayGivenBack(*link, answer.number));
    EXPECT_EQ(ask("/dataset/llm/none").code(), ErrorCode::kNotFound);
  }
  static Task<bool> sayGivenBack(LocalLink& link, std::uint64_t number) {
    link.giveBack(number);
    co_return true;
  }
  static Task<Result<LocalLink::Answer>> askOnce(LocalLink& link, std::string path) {
    ControlMessage open{static_cast<std::uint16_t>(ClientMessage::kOpen), encodePath(path)};
    co_return co_await link.ask(std::move(open), Clock::now() + std::chrono::seconds(60));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Gate gate{*reactor};
  std::thread thread;
  std::shared_ptr<LocalLink> link;
  std::atomic<bool> ended{false};
};

TEST_F(LocalLinkTest, TokensDecideWhatIsPassed) {
  warm();
  EXPECT_EQ(dial(capabilityOf({"llm"}), std::vector<std::byte>(32, std::byte{8})),
            ErrorCode::kUnauthenticated);
  ASSERT_EQ(dial(capabilityOf({"other"})), ErrorCode::kOk);
  EXPECT_EQ(ask("/dataset/llm/model").code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(ask("/dataset/other/model").code(), ErrorCode::kNotFound);
  EXPECT_EQ(ask("elsewhere").code(), ErrorCode::kInvalidArgument);
}

TEST_F(LocalLinkTest, AFileThatIsNotWholeIsNotPassed) {
  ASSERT_EQ(dial(capabilityOf({"llm"})), ErrorCode::kOk);
  EXPECT_EQ(ask("/dataset/llm/model").code(), ErrorCode::kTryElsewhere);
  warm();
  const Result<LocalLink::Answer> passed = ask("/dataset/llm/model");
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  EXPECT_TRUE(passed->descriptor);
  EXPECT_NE(fcntl(passed->descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
  std::string bytes(kSameNodeBytes, '\0');
  EXPECT_EQ(pread(passed->descriptor.get(), bytes.data(), kSameNodeBytes, 0),
            static_cast<ssize_t>(kSameNodeBytes));
  EXPECT_TRUE(bytes == expected);
  EXPECT_LT(pwrite(passed->descriptor.get(), bytes.data(), 1, 0), 0) << "read-only";
}

TEST_F(LocalLinkTest, APodCannotChangeWhatItIsPassed) {
  warm();
  ASSERT_EQ(dial(capabilityOf({"llm"})), ErrorCode::kOk);
  const Result<LocalLink::Answer> passed = ask("/dataset/llm/model");
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  using pod_attack::Pod;
  for (const Pod pod : {Pod::kWithoutCapabilities, Pod::kWithUserNamespace})
    EXPECT_STREQ(pod_attack::changeMadeBy(pod, passed->descriptor.get()), "");
  std::string bytes(kSameNodeBytes, '\0');
  EXPECT_EQ(pread(passed->descriptor.get(), bytes.data(), kSameNodeBytes, 0),
            static_cast<ssize_t>(kSameNodeBytes));
  EXPECT_TRUE(bytes == expected);
}

TEST_F(LocalLinkTest, AFileThatAProgramKeepsOpenIsNotEvicted) {
  warm();
  ASSERT_EQ(dial(capabilityOf({"llm"})), ErrorCode::kOk);
  Result<LocalLink::Answer> passed = ask("/dataset/llm/model");
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  giveBack(*passed);
  EXPECT_EQ(evict(), 0u) << "it says so, and has a descriptor";
  OwnedFd copy(dup(passed->descriptor.get()));
  passed->descriptor.reset();
  runOn(*reactor, close(*this));
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_EQ(evict(), 0u) << "its connection has ended";
  copy.reset();
  EXPECT_TRUE(eventually([&] { return evict() == 1; }));
}

// Open, say that it was given back, open again: without an end, the disk would be full of files
// that nobody else knows of.
TEST_F(LocalLinkTest, APodHasNoMoreFilesOpenThanItsPartOfTheCache) {
  warm();
  Capability capability = capabilityOf({"llm"});
  capability.podNamespace = "a";
  capability.pod = "greedy";
  ASSERT_EQ(dial(capability), ErrorCode::kOk);
  std::vector<OwnedFd> kept;
  Result<LocalLink::Answer> passed = ask("/dataset/llm/model");
  while (passed.ok() && kept.size() * kSameNodeBytes < kCacheBudget) {
    giveBack(*passed);
    kept.push_back(std::move(passed->descriptor));
    passed = ask("/dataset/llm/model");
  }
  EXPECT_EQ(passed.code(), ErrorCode::kUnavailable);
  EXPECT_LE(kept.size() * kSameNodeBytes, kCacheBudget / 4 * 3);
  hangUp();
  capability.pod = "other";
  ASSERT_EQ(dial(capability), ErrorCode::kOk);
  EXPECT_EQ(ask("/dataset/llm/model").code(), ErrorCode::kUnavailable) << "of its namespace";
  hangUp();
  capability.podNamespace = "b";
  ASSERT_EQ(dial(capability), ErrorCode::kOk);
  EXPECT_TRUE(ask("/dataset/llm/model").ok());
  kept.clear();
  hangUp();
  EXPECT_TRUE(eventually([&] { return evict() == 1; }));
}

TEST_F(LocalLinkTest, ATokenOfAnotherNodeIsRefused) {
  Capability capability = capabilityOf({"llm"});
  capability.nodes = {"other", "agent"};
  EXPECT_EQ(dial(capability), ErrorCode::kUnauthenticated);
  capability.nodes = {"agent", "other"};
  EXPECT_EQ(dial(capability), ErrorCode::kOk);
}

TEST_F(LocalLinkTest, TheConnectionOfARevokedTokenEnds) {
  Capability capability = capabilityOf({"llm"});
  capability.podNamespace = "team";
  capability.pod = "a-uid";
  ASSERT_EQ(dial(capability), ErrorCode::kOk);
  agent->await(revoke(agent->engine(), {.namespaces = {"team"}}));
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_EQ(dial(capability), ErrorCode::kUnauthenticated);
  EXPECT_EQ(dial(capabilityOf({"llm"})), ErrorCode::kOk) << "of no pod";
}

TEST_F(LocalLinkTest, TheConnectionEndsWithItsToken) {
  Capability capability = capabilityOf({"llm"});
  capability.expiresAtMs = msFromNow(std::chrono::milliseconds(300));
  // A slow machine may take longer to connect.
  const ErrorCode dialled = dial(capability);
  if (dialled != ErrorCode::kOk) {
    EXPECT_EQ(dialled, ErrorCode::kUnauthenticated);
    return;
  }
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_EQ(ask("/dataset/llm/model").code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace hearth::testing_client
