// A reader beside pods that attack its agent: it keeps its speed. Measures time.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <stop_token>
#include <thread>

#include "base/testing/pod_attack.h"
#include "base/testing/sanitizers.h"
#include "client_tests/testing_client.h"
#include "mount/idmapped_mount.h"
#include "transport/local_link.h"
#include "transport/raw_peer.h"
#include "wire/client_message.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kAttackedBytes = 16 * kChunkBytes;
constexpr std::uint64_t kAttackedBudget = 5 * kAttackedBytes;
// Files of the attacker's dataset, of a chunk each: as many as a pod may have open.
constexpr std::uint64_t kAttackersFiles = kAttackedBudget / 4 * 3 / kChunkBytes;

struct AttacksTest : ClientTest {
  AttacksTest() {
    raiseFileLimit();
    setenv("HEARTH_CLIENTS_SOCKET", "", 1);
    origin.add("model", kAttackedBytes);
    dataset = agent.add(origin);
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
  // Bytes a second of each of several reads of the whole file.
  std::vector<double> speeds(int reads) {
    std::vector<double> found;
    for (int i = 0; i < reads; ++i) {
      const Clock::time_point begun = Clock::now();
      EXPECT_EQ(read("/dataset/llm/model", 0, kAttackedBytes).status, 0u);
      const std::chrono::duration<double> took = Clock::now() - begun;
      found.push_back(double{kAttackedBytes} / took.count());
    }
    return found;
  }
  // Of the fastest of many reads.
  double speed() { return std::ranges::max(speeds(40)); }
  static double medianOf(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
    return values[values.size() / 2];
  }
  // The part of its speed that a reader keeps while what `begin` returns lives: the median of many
  // reads by that of as many alone, by turns, so that what else the machine does weighs on both.
  template <class Begin>
  double keptBeside(Begin begin) {
    std::vector<double> alone, beside;
    for (int turn = 0; turn < 8; ++turn) {
      std::ranges::copy(speeds(10), std::back_inserter(alone));
      const auto attack = begin();
      std::ranges::copy(speeds(10), std::back_inserter(beside));
    }
    return medianOf(std::move(beside)) / medianOf(std::move(alone));
  }
  // Sanitizers weigh on some threads more than on others.
  static void expectKept(double part) {
    RecordProperty("kept", std::to_string(part));
    if (!kSanitized) EXPECT_GE(part, 0.8);
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

  TemporaryFolder run, cache;
  Origin origin;
  Agent agent{"agent", kAttackedBudget, [](EngineEvent) {}, cache.path(),
              [this](EngineOptions& options) { options.clientSocket = run.path("agent.sock"); }};
  std::shared_ptr<Dataset> dataset;
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
  expectKept(speed() / alone);
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
  std::atomic<int> refused{0}, taken{0};
  const auto attack = [&](const std::stop_token& over) {
    for (std::size_t i = 0; !over.stop_requested(); ++i) {
      RawPeer peer(agent.engine().addresses().front());
      if (!peer.joinAsClient(tokens[i % tokens.size()], "attacker")) {
        ++refused;
        continue;
      }
      const bool asked = peer.expect<Credit>() && peer.send(encodeFrame(resolve, 1));
      const auto answer = asked ? peer.expect<ControlAnswer>() : std::nullopt;
      ++(answer && answer->code == ErrorCode::kPermissionDenied ? refused : taken);
    }
  };
  expectKept(keptBeside([&] { return std::jthread(attack); }));
  EXPECT_EQ(taken, 0);
  EXPECT_GT(refused, 0);
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
  expectKept(beside / alone);
}

// A pod on the agent's node, with a dataset of its own and the right to advise.
struct LocalAttacksTest : AttacksTest {
  LocalAttacksTest() {
    for (std::uint64_t i = 0; i < kAttackersFiles; ++i) theirs.add(std::to_string(i), kChunkBytes);
    agent.engine().nameDatasets({{"llm", dataset}, {"theirs", agent.add(theirs)}});
    thread = std::thread([this] { reactor->run(); });
  }
  ~LocalAttacksTest() override {
    runOn(*reactor, close(*this));
    reactor->stop();
    thread.join();
  }
  void SetUp() override {
    // Without such mounts no descriptor is passed.
    const Result<OwnedFd> mount = makeIdmapped(cache.path());
    if (!mount.ok()) GTEST_SKIP() << mount.error().message;
    Capability capability = ofPod("attacker");
    capability.datasets = {"theirs"};
    capability.rights |= static_cast<std::uint32_t>(CapabilityRight::kAdvise);
    LocalLinkOptions options{run.path("agent.sock"), "attacker", "test",
                             *signCapability(capability, kSecret)};
    Result<std::shared_ptr<LocalLink>> dialled =
        runOn(*reactor, LocalLink::dial(*reactor, gate, std::move(options), [] {}));
    ASSERT_TRUE(dialled.ok()) << dialled.error().message;
    link = *dialled;
  }
  static Task<bool> close(LocalAttacksTest& test) {
    if (test.link != nullptr) test.link->end();
    co_await test.gate.close();
    co_return true;
  }
  Task<Result<LocalLink::Answer>> ask(ClientMessage type, std::vector<std::byte> body) {
    ControlMessage message{static_cast<std::uint16_t>(type), std::move(body)};
    co_return co_await link->ask(std::move(message), Clock::now() + std::chrono::seconds(60));
  }
  Task<bool> advise(std::string path, ClientAdvice advice) {
    const AdviseRequest request{std::move(path), advice, AdviceScope::kNode};
    const Result<LocalLink::Answer> answer = co_await ask(ClientMessage::kAdvise, encode(request));
    co_return answer.ok();
  }
  // Asks for the file until the agent passes or refuses it; gives up when the cache has no room.
  Task<bool> openAndKeep(std::string path) {
    for (int tries = 0; tries < 100; ++tries) {
      Result<LocalLink::Answer> opened = co_await ask(ClientMessage::kOpen, encodePath(path));
      if (opened.code() == ErrorCode::kUnavailable) ++refused;
      if (opened.ok()) {
        link->giveBack(opened->number);
        kept.push_back(std::move(opened->descriptor));
      }
      if (opened.code() != ErrorCode::kTryElsewhere) break;
      co_await reactor->sleep(std::chrono::milliseconds(5));
    }
    co_return true;
  }
  // Has a file fetched and opens it, and says that the descriptor is given back.
  Task<bool> open(std::uint64_t which) {
    (void)co_await advise(pathOf(which), ClientAdvice::kWillNeed);
    (void)co_await openAndKeep(pathOf(which));
    co_return true;
  }
  // The same, and has the agent let go of the file.
  Task<bool> openAndLetGo(std::uint64_t which) {
    (void)co_await open(which);
    (void)co_await advise(pathOf(which), ClientAdvice::kDontNeed);
    co_return true;
  }
  // Has all files fetched and lets go of them, again and again: every other time when the first one
  // has come. A request for each file would meet the bound of requests.
  static Task<bool> refetch(LocalAttacksTest& test, std::stop_token over) {
    const std::string all = "/dataset/theirs";
    for (std::uint64_t round = 0; !over.stop_requested(); ++round) {
      (void)co_await test.advise(all, ClientAdvice::kWillNeed);
      (void)co_await test.awaitFile(pathOf(round % 2 == 0 ? kAttackersFiles - 1 : 0), over);
      (void)co_await test.advise(all, ClientAdvice::kDontNeed);
      // The next advice would end this one.
      co_await test.reactor->sleep(std::chrono::milliseconds(10));
    }
    co_return true;
  }
  Task<bool> awaitFile(std::string path, std::stop_token over) {
    for (int tries = 0; tries < 1000 && !over.stop_requested(); ++tries) {
      const Result<LocalLink::Answer> opened = co_await ask(ClientMessage::kOpen, encodePath(path));
      if (opened.ok()) link->giveBack(opened->number);
      if (opened.code() != ErrorCode::kTryElsewhere) co_return opened.ok();
      co_await reactor->sleep(std::chrono::milliseconds(1));
    }
    co_return false;
  }
  // Bytes that advice has made the agent let go of, since the start.
  std::uint64_t letGo() { return agent.await(agent.engine().statistics()).dontNeedBytes; }
  static std::string pathOf(std::uint64_t which) {
    return "/dataset/theirs/" + std::to_string(which % kAttackersFiles);
  }
  // Of the cache, also of files that have no name any more and are open here.
  [[nodiscard]] std::uint64_t bytesOnDisk() const {
    std::map<ino_t, std::uint64_t> bytes;
    const auto add = [&](const struct stat& about) {
      if (S_ISREG(about.st_mode))
        bytes[about.st_ino] = std::uint64_t{512} * static_cast<std::uint64_t>(about.st_blocks);
    };
    struct stat about {};
    for (const OwnedFd& each : kept)
      if (fstat(each.get(), &about) == 0) add(about);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path()))
      if (lstat(entry.path().c_str(), &about) == 0) add(about);
    std::uint64_t all = 0;
    for (const auto& [inode, size] : bytes) all += size;
    return all;
  }

  Origin theirs;
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Gate gate{*reactor};
  std::thread thread;
  std::shared_ptr<LocalLink> link;
  std::vector<OwnedFd> kept;
  int refused = 0;
};

TEST_F(LocalAttacksTest, FilesThatAPodKeepsOpenAndLetsGoOf) {
  for (std::uint64_t which = 0; refused == 0; ++which) runOn(*reactor, open(which));
  const auto attack = [&](const std::stop_token& over) {
    for (std::uint64_t which = 0; !over.stop_requested(); ++which)
      runOn(*reactor, openAndLetGo(which));
  };
  expectKept(keptBeside([&] { return std::jthread(attack); }));
  EXPECT_LE(kept.size(), kAttackersFiles);
  EXPECT_LE(bytesOnDisk(), kAttackedBudget);
}

TEST_F(LocalAttacksTest, AdviceThatIsFetchedAgainWithoutEnd) {
  const auto attack = [&](const std::stop_token& over) {
    runOn(*reactor, refetch(*this, over));
    // What is under way would weigh on the next reads alone.
    runOn(*reactor, advise("/dataset/theirs", ClientAdvice::kDontNeed));
  };
  const std::uint64_t before = letGo();
  expectKept(keptBeside([&] { return std::jthread(attack); }));
  const std::uint64_t after = letGo();
  RecordProperty("let go", std::to_string(after - before));
  // The agent does less than it is asked for, but it does something.
  EXPECT_GT(after, before);
}

// A process that is a container's, and tries to change the file of a descriptor a thousand times a
// second. Only system calls are made in it.
class WritingPod {
 public:
  explicit WritingPod(int fd) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    child_ = fork();
    if (child_ == 0) {
      close(ends[1]);
      pollfd over{ends[0], POLLIN, 0};
      int status = pod_attack::becomePod(pod_attack::Pod::kWithoutCapabilities) ? 0 : 1;
      while (status == 0 && poll(&over, 1, 1) == 0)
        if (pod_attack::firstSuccess(fd) != nullptr) status = 2;
      _exit(status);
    }
    close(ends[0]);
    input_ = OwnedFd(ends[1]);
  }
  ~WritingPod() {
    input_.reset();
    int status = -1;
    waitpid(child_, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0) << "1: it was no container's; 2: it has changed something";
  }
  WritingPod(const WritingPod&) = delete;
  WritingPod& operator=(const WritingPod&) = delete;

 private:
  pid_t child_ = -1;
  OwnedFd input_;
};

TEST_F(LocalAttacksTest, DescriptorsThatAPodTriesToWriteTo) {
  ASSERT_TRUE(eventually([&] {
    runOn(*reactor, open(0));
    return !kept.empty();
  }));
  expectKept(keptBeside([&] { return std::make_unique<WritingPod>(kept[0].get()); }));
  std::string bytes(kChunkBytes, '\0');
  EXPECT_EQ(pread(kept[0].get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(bytes == theirs.bytesOf("0"));
}

}  // namespace
}  // namespace hearth::testing_client
