// Engines that read datasets from each other over libibverbs and a kernel's soft-RoCE devices,
// while their TCP connections take the loopback device, which no cable carries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "engine/testing_cluster.h"
#include "verbs/testing/rxe_pair.h"

namespace hearth::testing_cluster {
namespace {

using ::testing::HasSubstr;
using testing_verbs::changeDevices;
using testing_verbs::RxeDevices;

constexpr std::size_t kFileBytes = 5'000'000;  // more than a chunk
constexpr std::size_t kFiles = 4;

void describe(EngineOptions& options, const std::string& device, RdmaUse use) {
  options.shards = 1;
  options.rdma.use = use;
  options.rdma.devices = {device};
  // An emulated processor is silent for longer than a machine.
  options.transport = [](Reactor& reactor, TransportOptions transport, PeerHandler& handler) {
    transport.rdmaSilence = std::chrono::seconds(5);
    return PeerTransport::create(reactor, std::move(transport), handler);
  };
}

std::unique_ptr<Agent> agentWith(const std::string& name, const std::string& device) {
  return std::make_unique<Agent>(
      name, [device](EngineOptions& options) { describe(options, device, RdmaUse::kAuto); });
}

std::string nameOf(std::size_t file) { return "file" + std::to_string(file); }

std::unique_ptr<Origin> makeOrigin() {
  auto origin = std::make_unique<Origin>();
  for (std::size_t file = 0; file < kFiles; ++file) origin->add(nameOf(file), kFileBytes);
  return origin;
}

void warm(Agent& agent, const Origin& origin) {
  agent.beginWarm(agent.add(origin));
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

EngineStatistics statistics(Agent& agent) { return agent.await(agent.engine().statistics()); }

// An agent that reads files that another agent holds.
class Reader {
 public:
  Reader(Agent& agent, std::string holder, const Origin& origin)
      : agent_(agent), holder_(std::move(holder)), dataset_(agent.add(origin)) {
    for (const std::string& name : origin.names()) expected_[name] = origin.bytesOf(name);
  }

  // Forgets one file, reads it from wherever it is, and compares every byte.
  void read(std::size_t file) {
    const auto entry = dataset_->manifest->lookUp(nameOf(file));
    ASSERT_TRUE(entry.has_value());
    auto& contents = agent_.engine().contents();
    static_cast<void>(agent_.await(contents.evict(dataset_, std::vector{*entry})));
    const auto bytes = agent_.await(contents.read(dataset_, *entry, 0, kFileBytes));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_TRUE(std::ranges::equal(*bytes, std::as_bytes(std::span(expected_[nameOf(file)]))))
        << nameOf(file) << " differs from the origin's";
  }
  void readAll() {
    for (std::size_t file = 0; file < kFiles; ++file) read(file);
  }
  // The memory for chunks is pinned, and the ports are connected.
  void readUntilByRdma() {
    const std::uint64_t before = peer().rdmaBytesReceived;
    EXPECT_TRUE(eventually([&] {
      read(0);
      return peer().rdmaBytesReceived > before;
    })) << peer().rdmaError
        << statistics(agent_).rdma.reason;
  }
  // An emulated machine may be silent for so long that its connections fail, and are made again.
  void readUntilOver(const std::string& port) {
    EXPECT_TRUE(eventually([&] {
      read(0);
      const PeerStatistics now = peer();
      return now.rdma == port && now.rdmaError.empty();
    })) << peer().rdmaError;
  }
  // Reads all files, and calls `change` as soon as some of their bytes have come by RDMA.
  void readWhile(const std::function<void()>& change) {
    const std::uint64_t before = peer().rdmaBytesReceived;
    auto reading = std::async(std::launch::async, [this] { readAll(); });
    EXPECT_TRUE(eventually([&] { return peer().rdmaBytesReceived > before; }));
    change();
    reading.get();
  }
  void expectReadsOverTcp() {
    const std::uint64_t before = peer().rdmaBytesReceived;
    readAll();
    EXPECT_EQ(peer().rdmaBytesReceived, before);
  }
  [[nodiscard]] PeerStatistics peer() {
    for (const PeerStatistics& each : statistics(agent_).peers)
      if (each.node == holder_) return each;
    return {};
  }

 private:
  Agent& agent_;
  const std::string holder_;
  const std::shared_ptr<Dataset> dataset_;
  std::map<std::string, std::string> expected_;
};

// Agent a on rxe0 holds files whose origin has gone, agent b on rxe1 reads them.
class AgentsRxeTest : public ::testing::Test {
 protected:
  void start(const std::string& mtus = "1500 1500") {
    devices_ = std::make_unique<RxeDevices>(mtus);
    a_ = agentWith("a", "rxe0");
    b_ = agentWith("b", "rxe1");
    connect({a_.get(), b_.get()});
    const std::unique_ptr<Origin> origin = makeOrigin();
    warm(*a_, *origin);
    reader_ = std::make_unique<Reader>(*b_, "a", *origin);
  }

  std::unique_ptr<RxeDevices> devices_;  // ends after the agents that have the devices open
  std::unique_ptr<Agent> a_, b_;
  std::unique_ptr<Reader> reader_;
};

TEST_F(AgentsRxeTest, ReadAFileFromEachOtherOverVerbs) {
  start();
  reader_->readUntilByRdma();
  reader_->readAll();
  reader_->readUntilOver("rxe1/1");
  const RdmaStatistics rdma = statistics(*b_).rdma;
  EXPECT_EQ(rdma.reason, "");
  ASSERT_EQ(rdma.ports.size(), 1u);
  EXPECT_EQ(rdma.ports.front().name, "rxe1/1");
  EXPECT_EQ(rdma.ports.front().link, "RoCE v2");
  EXPECT_EQ(rdma.ports.front().gid, "10.77.0.2");

  const std::unique_ptr<Origin> origin = makeOrigin();
  warm(*b_, *origin);
  Reader back(*a_, "b", *origin);
  back.readUntilByRdma();
  back.readUntilOver("rxe0/1");
}

TEST_F(AgentsRxeTest, GoOnOverTcpWhenTheLinkGoesDownAndBackByRdma) {
  start();
  reader_->readUntilByRdma();
  reader_->readWhile([] { ASSERT_TRUE(changeDevices("unplug")); });
  EXPECT_TRUE(eventually(
      [this] { return statistics(*b_).rdma.reason.find("rxe1/1 is down") != std::string::npos; }));
  EXPECT_GT(reader_->peer().rdmaFailures, 0u);
  reader_->expectReadsOverTcp();
  ASSERT_TRUE(changeDevices("plug"));
  reader_->readUntilByRdma();
  EXPECT_EQ(statistics(*b_).rdma.reason, "");
}

TEST_F(AgentsRxeTest, ReadThroughPortsWhoseMtusDiffer) {
  start("1500 9000");
  reader_->readUntilByRdma();
  reader_->readAll();
  EXPECT_EQ(statistics(*a_).rdma.ports.at(0).mtuBytes, 1024u);
  EXPECT_EQ(statistics(*b_).rdma.ports.at(0).mtuBytes, 4096u);
}

TEST_F(AgentsRxeTest, GoOnOverTcpWhenTheDevicesAreRemoved) {
  start();
  reader_->readUntilByRdma();
  // The kernel ends the removal when both agents have closed their devices.
  reader_->readWhile([this] { devices_->remove(); });
  EXPECT_TRUE(eventually([this] {
    reader_->read(0);
    return !reader_->peer().rdmaError.empty();
  }));
  reader_->expectReadsOverTcp();
}

// Both ends of a pipe to or from a process of the test.
struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void say(const std::string& text) const {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Up to the end of a line.
  [[nodiscard]] std::string hear() const {
    std::string text;
    char letter = 0;
    while (::read(ends[0], &letter, 1) == 1 && letter != '\n') text += letter;
    return text;
  }
  int ends[2]{};
};

std::string portOf(Agent& agent) {
  return std::to_string(agent.member().identity.addresses.at(0).port);
}

ClusterMember memberAt(const std::string& name, const std::string& port) {
  ClusterMember member{{name, "1", {}}, "", "", true};
  member.identity.addresses = {{"127.0.0.1", static_cast<std::uint16_t>(std::stoi(port))}};
  return member;
}

// Agent a in a process of its own: holds the files, and waits to be killed.
[[noreturn]] void hold(const Origin& origin, const Pipe& from, const Pipe& to) {
  const std::unique_ptr<Agent> agent = agentWith("a", "rxe0");
  to.say(portOf(*agent) + "\n");
  agent->setCluster({agent->member(), memberAt("b", from.hear())});
  warm(*agent, origin);
  to.say("holds\n");
  for (;;) ::pause();
}

TEST(KilledHolderRxeTest, ItsReadersGetTheRestFromTheOrigin) {
  const RxeDevices devices;
  const std::unique_ptr<Origin> origin = makeOrigin();
  const Pipe toHolder, toTest;
  const pid_t holder = ::fork();  // before this process has threads
  ASSERT_GE(holder, 0);
  if (holder == 0) hold(*origin, toHolder, toTest);
  const std::unique_ptr<Agent> agent = agentWith("b", "rxe1");
  toHolder.say(portOf(*agent) + "\n");
  agent->setCluster({agent->member(), memberAt("a", toTest.hear())});
  ASSERT_EQ(toTest.hear(), "holds");
  Reader reader(*agent, "a", *origin);
  reader.readUntilByRdma();
  reader.readWhile([holder] { ASSERT_EQ(::kill(holder, SIGKILL), 0); });
  EXPECT_EQ(::waitpid(holder, nullptr, 0), holder);
  reader.readAll();
}

// Runs `say` in a process of its own that may lock `bytes` of memory, and returns its text.
std::string withMemlock(std::uint64_t bytes, const std::function<std::string()>& say) {
  const Pipe toTest;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{bytes, bytes};
    ::setrlimit(RLIMIT_MEMLOCK, &most);
    // Root may pin whatever the limit says, as long as it has CAP_IPC_LOCK.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    ::syscall(SYS_capget, &header, sets);
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header, sets);
    toTest.say(say() + "\n");
    ::_exit(0);
  }
  std::string said = toTest.hear();
  ::waitpid(child, nullptr, 0);
  return said;
}

TEST(MemlockRxeTest, AnAgentNamesTheLimitAndStaysOnTcp) {
  const RxeDevices devices;
  const auto reason = [] {
    const std::unique_ptr<Agent> agent = agentWith("a", "rxe0");
    eventually([&agent] {
      const std::string now = statistics(*agent).rdma.reason;
      return !now.empty() && now.find("is being pinned") == std::string::npos;
    });
    return statistics(*agent).rdma.reason;
  };
  // Not even messages, and then messages and copies alone.
  for (const std::uint64_t bytes : {64ull << 10, 24ull << 20})
    EXPECT_THAT(withMemlock(bytes, reason), HasSubstr("raise the limit of locked memory"));
}

TEST(MemlockRxeTest, AnAgentThatRequiresRdmaDoesNotStart) {
  const RxeDevices devices;
  const auto refusal = []() -> std::string {
    const TemporaryFolder folder;
    EngineOptions options;
    options.node = "a";
    options.secret.assign(32, std::byte{7});
    options.cacheDirectories = {{folder.path(), 1ull << 30, 0}};
    describe(options, "rxe0", RdmaUse::kRequired);
    const auto engine = Engine::open(std::move(options), [](EngineEvent) {});
    return engine.ok() ? "started" : engine.error().message;
  };
  const std::string said = withMemlock(64 << 10, refusal);
  EXPECT_THAT(said, HasSubstr("RDMA is required and cannot be used"));
  EXPECT_THAT(said, HasSubstr("raise the limit of locked memory"));
}

}  // namespace
}  // namespace hearth::testing_cluster
