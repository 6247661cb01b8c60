// Engines that read datasets from each other over RDMA, on the fabric inside the process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "engine/testing_cluster.h"
#include "verbs/testing/in_process_verbs.h"

namespace hearth::testing_cluster {
namespace {

using ::testing::HasSubstr;
using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

constexpr std::size_t kFileBytes = 5'000'000;  // more than a chunk
constexpr std::size_t kFiles = 4;

class RdmaTest : public ::testing::Test {
 protected:
  std::function<void(EngineOptions&)> over(std::vector<PortOptions> ports) {
    auto verbs = std::make_shared<InProcessVerbs>(fabric_, std::move(ports));
    return [verbs, silence = silence_, bufferBytes = bufferBytes_](EngineOptions& options) {
      options.shards = 1;
      options.bufferBytes = bufferBytes;
      options.rdma.use = RdmaUse::kAuto;
      options.rdma.load = [verbs](const std::string&) -> Result<std::shared_ptr<Verbs>> {
        return std::shared_ptr<Verbs>(verbs);
      };
      options.transport = [silence](Reactor& reactor, TransportOptions transport,
                                    PeerHandler& handler) {
        transport.rdmaSilence = silence;
        return PeerTransport::create(reactor, std::move(transport), handler);
      };
    };
  }
  void start(std::vector<PortOptions> a, std::vector<PortOptions> b) {
    a_ = std::make_unique<Agent>("a", over(std::move(a)));
    b_ = std::make_unique<Agent>("b", over(std::move(b)));
    connect({a_.get(), b_.get()});
  }
  // Gives `holder` a dataset whose origin then goes, and names it to `reader`.
  std::shared_ptr<Dataset> hold(Agent& holder, Agent& reader) {
    Origin origin;
    for (std::size_t file = 0; file < kFiles; ++file)
      origin.add("file" + std::to_string(file), fileBytes_);
    for (const std::string& name : origin.names()) expected_[name] = origin.bytesOf(name);
    const auto held = holder.add(origin);
    auto wanted = reader.add(origin);
    holder.beginWarm(held);
    EXPECT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
    return wanted;
  }
  // Reads one file, from any agent or the origin, and compares its bytes.
  void read(Agent& reader, const std::shared_ptr<Dataset>& dataset, std::size_t file) {
    const std::string name = "file" + std::to_string(file);
    const auto entry = dataset->manifest->lookUp(name);
    ASSERT_TRUE(entry.has_value());
    // A call gives a part of a long file.
    for (std::span rest = std::as_bytes(std::span(expected_[name])); !rest.empty();) {
      const auto bytes = reader.await(
          reader.engine().contents().read(dataset, *entry, fileBytes_ - rest.size(), rest.size()));
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      ASSERT_FALSE(bytes->empty());
      ASSERT_TRUE(std::ranges::equal(*bytes, rest.first(bytes->size())));
      rest = rest.subspan(bytes->size());
    }
  }
  void readAgain(Agent& reader, const std::shared_ptr<Dataset>& dataset, std::size_t file) {
    static_cast<void>(reader.await(reader.engine().contents().evict(
        dataset, std::vector{*dataset->manifest->lookUp("file" + std::to_string(file))})));
    read(reader, dataset, file);
  }
  // Reads the first file until RDMA carries the bytes; the memory for chunks is pinned by then.
  void connects(Agent& reader, const std::string& holder, const std::shared_ptr<Dataset>& dataset) {
    ASSERT_TRUE(eventually([&] {
      readAgain(reader, dataset, 0);
      return of(reader, holder).rdmaBytesReceived >= fileBytes_;
    }));
  }
  static EngineStatistics statistics(Agent& agent) {
    return agent.await(agent.engine().statistics());
  }
  static PeerStatistics of(Agent& agent, const std::string& peer) {
    for (const PeerStatistics& each : statistics(agent).peers) {
      if (each.node == peer) return each;
    }
    return {};
  }
  static Result<std::unique_ptr<Engine>> open(const TemporaryFolder& folder, RdmaOptions rdma) {
    EngineOptions options;
    options.node = "a";
    options.secret.assign(32, std::byte{7});
    options.cacheDirectories = {{folder.path(), 1ull << 30, 0}};
    options.shards = 1;
    options.rdma = std::move(rdma);
    return Engine::open(std::move(options), [](EngineEvent) {});
  }

  Fabric fabric_;
  // A machine that is busy must not be taken for a path that is dead.
  Clock::duration silence_ = kHang;
  std::uint64_t bufferBytes_ = 0;
  std::size_t fileBytes_ = kFileBytes;
  std::map<std::string, std::string> expected_;
  std::unique_ptr<Agent> a_, b_;
};

const PortOptions kPortOfA{.name = "a0", .address = 1}, kPortOfB{.name = "b0", .address = 2};

TEST_F(RdmaTest, EnginesReadDatasetsFromEachOther) {
  start({kPortOfA}, {kPortOfB});
  const auto ofB = hold(*b_, *a_);
  connects(*a_, "b", ofB);
  for (std::size_t file = 1; file < kFiles; ++file) read(*a_, ofB, file);
  const auto ofA = hold(*a_, *b_);
  connects(*b_, "a", ofA);
  for (std::size_t file = 1; file < kFiles; ++file) read(*b_, ofA, file);

  const PeerStatistics peer = of(*a_, "b");
  EXPECT_EQ(peer.rdma, "a0/1");
  EXPECT_EQ(peer.rdmaError, "");
  // The first file has come by RDMA at least once.
  EXPECT_GT(peer.rdmaBytesReceived, kFileBytes);
  EXPECT_GT(peer.rdmaBytesSent, kFileBytes);
  EXPECT_EQ(peer.rdmaFailures, 0u);
  // Memory is pinned beside the first reads.
  EXPECT_TRUE(eventually([&] { return statistics(*a_).rdma.reason.empty(); }));
  const RdmaStatistics rdma = statistics(*a_).rdma;
  ASSERT_EQ(rdma.ports.size(), 1u);
  EXPECT_EQ(rdma.ports.front().name, "a0/1");
  EXPECT_EQ(rdma.ports.front().link, "RoCE v2");
  EXPECT_EQ(rdma.ports.front().gid, "10.0.0.1");
  EXPECT_TRUE(rdma.ports.front().active);
  EXPECT_TRUE(rdma.ports.front().used);
}

// PeerService lends what is in memory, and the device reads it there.
TEST_F(RdmaTest, ChunksInMemoryLeaveWithoutACopy) {
  constexpr std::size_t kChunks = 64;
  bufferBytes_ = 2 * kChunks * kChunkBytes;
  fileBytes_ = kChunks / kFiles * kChunkBytes;
  start({kPortOfA}, {kPortOfB});
  const auto ofB = hold(*b_, *a_);
  connects(*a_, "b", ofB);
  ASSERT_TRUE(eventually([&] { return statistics(*b_).rdma.reason.empty(); }));
  const auto sent = [&] { return of(*b_, "a").rdmaRails.at(0); };
  const std::uint64_t copied = sent().bytesCopied;
  // On a busy machine one round may go by RDMA in part only.
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t before = sent().bytesInPlace;
    for (std::size_t file = 0; file < kFiles; ++file) readAgain(*a_, ofB, file);
    return sent().bytesInPlace - before >= kChunks * kChunkBytes;
  }));
  EXPECT_EQ(sent().bytesCopied, copied);
}

// Slots in use although the memory tier has dropped all chunks.
Task<std::size_t> dropChunks(Shard& shard) {
  shard.memory->clear();
  co_return shard.slots->size() - shard.slots->free();
}

TEST_F(RdmaTest, SlotsComeBackWhenTheReadersPortDies) {
  start({kPortOfA}, {kPortOfB});
  const auto ofB = hold(*b_, *a_);
  connects(*a_, "b", ofB);
  ASSERT_TRUE(eventually([&] { return statistics(*b_).rdma.reason.empty(); }));
  std::atomic<bool> isHeld = false;
  fabric_.judgeBy([&isHeld](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
    if (opcode == IBV_WR_RDMA_WRITE) isHeld = true;
    return {.held = opcode == IBV_WR_RDMA_WRITE};
  });
  auto reading = std::async(std::launch::async, [&] { readAgain(*a_, ofB, 1); });
  EXPECT_TRUE(eventually([&] { return isHeld.load(); }));
  Shard& shard = *b_->engine().commons().shards.front();
  const auto inUse = [&shard] { return runOn(*shard.reactor, dropChunks(shard)); };
  EXPECT_GT(inUse(), 0u) << "the device reads some";
  fabric_.setLink(1, false);
  fabric_.judgeBy({});
  fabric_.resume();
  reading.get();
  EXPECT_TRUE(eventually([&] { return inUse() == 0; }));
}

// Two ports on each side, each with its own counts.
class TwoPortsTest : public RdmaTest {
 protected:
  void startTwo() {
    start({kPortOfA, {.name = "a1", .address = 3}}, {kPortOfB, {.name = "b1", .address = 4}});
    ofB_ = hold(*b_, *a_);
    ASSERT_TRUE(carryFromNowOn({0, 1}));
  }
  [[nodiscard]] std::vector<RailStatistics> rails() { return of(*a_, "b").rdmaRails; }
  // Reads until each of these ports has carried more than it has by now.
  bool carryFromNowOn(const std::vector<std::size_t>& ports) {
    std::vector<RailStatistics> before = rails();
    before.resize(2);
    return eventually([&] {
      readAgain(*a_, ofB_, 0);
      const std::vector<RailStatistics> now = rails();
      return now.size() == 2 && std::ranges::all_of(ports, [&](std::size_t port) {
               return now[port].bytesReceived > before[port].bytesReceived;
             });
    });
  }

  std::shared_ptr<Dataset> ofB_;
};

TEST_F(TwoPortsTest, BothCarryReadsAndAreCountedApart) {
  startTwo();
  const RdmaStatistics rdma = statistics(*a_).rdma;
  ASSERT_EQ(rdma.ports.size(), 2u);
  EXPECT_TRUE(rdma.ports[0].used && rdma.ports[1].used);
  const PeerStatistics peer = of(*a_, "b");
  EXPECT_EQ(peer.rdma, "a0/1, a1/1");
  EXPECT_EQ(peer.rdmaRails[0].bytesReceived + peer.rdmaRails[1].bytesReceived,
            peer.rdmaBytesReceived);
  for (const RailStatistics& rail : peer.rdmaRails) {
    EXPECT_GT(rail.latency.total(), 0u);
    EXPECT_LE(rail.latency.total(), rail.requests);
  }
  const PeerStatistics atB = of(*b_, "a");
  ASSERT_EQ(atB.rdmaRails.size(), 2u);
  EXPECT_GT(atB.rdmaRails[0].answers, 0u);
  EXPECT_GT(atB.rdmaRails[1].answers, 0u);
  EXPECT_EQ(atB.rdmaRails[0].bytesSent + atB.rdmaRails[1].bytesSent, atB.rdmaBytesSent);
}

TEST_F(TwoPortsTest, OneThatDiesUnderReadsLeavesTheOtherAndComesBack) {
  startTwo();
  std::atomic<int> writes = 0;
  fabric_.judgeBy([&writes](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
    writes += opcode == IBV_WR_RDMA_WRITE ? 1 : 0;
    return {};
  });
  std::atomic<bool> ends = false;
  auto reading = std::async(std::launch::async, [&] {
    while (!ends)
      for (std::size_t file = 0; file < kFiles; ++file) readAgain(*a_, ofB_, file);
  });
  EXPECT_TRUE(eventually([&] { return writes >= 4; }));
  fabric_.setLink(1, false);
  EXPECT_TRUE(eventually([&] { return of(*a_, "b").rdma == "a1/1"; }));
  ends = true;
  reading.get();
  fabric_.judgeBy({});
  EXPECT_TRUE(carryFromNowOn({1}));
  const RdmaStatistics rdma = statistics(*a_).rdma;
  EXPECT_FALSE(rdma.ports[0].active);
  EXPECT_EQ(rdma.reason, "");
  EXPECT_THAT(rails()[0].error, HasSubstr("has gone down"));
  EXPECT_EQ(rails()[1].failures, 0u);
  fabric_.setLink(1, true);
  EXPECT_TRUE(carryFromNowOn({0, 1}));
}

TEST_F(TwoPortsTest, OneThatMayNotPinMemoryLeavesTheOther) {
  start({{.name = "a0", .address = 1, .lockableBytes = 32u << 20}, {.name = "a1", .address = 3}},
        {kPortOfB, {.name = "b1", .address = 4}});
  ofB_ = hold(*b_, *a_);
  EXPECT_TRUE(carryFromNowOn({1}));
  EXPECT_TRUE(eventually([&] { return statistics(*a_).rdma.reason.empty(); }));
  const RdmaStatistics rdma = statistics(*a_).rdma;
  EXPECT_FALSE(rdma.ports[0].used);
  ASSERT_EQ(rdma.refused.size(), 1u);
  EXPECT_EQ(rdma.refused[0].port, "a0/1");
  EXPECT_THAT(rdma.refused[0].reason, HasSubstr("RLIMIT_MEMLOCK"));
  EXPECT_EQ(rails()[0].bytesReceived, 0u);
}

// Without memory windows bytes come in messages.
TEST_F(RdmaTest, EnginesReadFromEachOtherWithoutMemoryWindows) {
  start({{.name = "a0", .address = 1, .hasWindows = false}},
        {{.name = "b0", .address = 2, .hasWindows = false}});
  const auto ofB = hold(*b_, *a_);
  connects(*a_, "b", ofB);
  for (std::size_t file = 1; file < kFiles; ++file) read(*a_, ofB, file);
  EXPECT_EQ(of(*a_, "b").rdmaFailures, 0u);
  EXPECT_FALSE(statistics(*a_).rdma.ports.front().hasWindows);
  EXPECT_TRUE(eventually([&] { return statistics(*a_).rdma.reason.empty(); }));
}

class LostDeviceTest : public RdmaTest {
 protected:
  LostDeviceTest() { silence_ = TransportOptions{}.rdmaSilence; }
  // Device `lost` goes while the test holds back a write to the reader.
  void losesDevice(std::uint8_t lost) {
    start({kPortOfA}, {kPortOfB});
    const auto wanted = hold(*b_, *a_);
    connects(*a_, "b", wanted);
    std::atomic<bool> isHeld = false;
    fabric_.judgeBy([&isHeld](std::uint32_t, ibv_wr_opcode opcode) -> Fabric::Verdict {
      if (opcode == IBV_WR_RDMA_WRITE) isHeld = true;
      return {.held = opcode == IBV_WR_RDMA_WRITE};
    });
    auto reading = std::async(std::launch::async, [&] {
      for (std::size_t file = 0; file < kFiles; ++file) readAgain(*a_, wanted, file);
    });
    EXPECT_TRUE(eventually([&] { return isHeld.load(); }));
    fabric_.remove(lost);
    reading.get();
    fabric_.judgeBy({});
    EXPECT_TRUE(eventually([&] {
      readAgain(*a_, wanted, 0);
      return !of(*a_, "b").rdmaError.empty();
    }));
    EXPECT_GT(of(*a_, "b").rdmaFailures, 0u);
  }
};

TEST_F(LostDeviceTest, ReadsGoOnOverTcpWithoutTheReaders) { losesDevice(1); }

TEST_F(LostDeviceTest, ReadsGoOnOverTcpWithoutTheHolders) { losesDevice(2); }

TEST_F(RdmaTest, ReadsOverTcpWhereTheOtherAgentHasNoPort) {
  start({kPortOfA}, {{.name = "b0", .address = 2, .active = false}});
  const auto wanted = hold(*b_, *a_);
  EXPECT_TRUE(eventually([&] {
    readAgain(*a_, wanted, 0);
    return !of(*a_, "b").rdmaError.empty();
  }));
  EXPECT_EQ(of(*a_, "b").rdmaBytesReceived, 0u);
  const RdmaStatistics rdma = statistics(*b_).rdma;
  EXPECT_THAT(rdma.reason, HasSubstr("the port is not active"));
  ASSERT_EQ(rdma.refused.size(), 1u);
  EXPECT_EQ(rdma.refused.front().port, "b0/1");
}

TEST_F(RdmaTest, SaysThatMemoryMayNotBePinned) {
  // Room for messages and copies, and not for the memory for chunks.
  start({kPortOfA}, {{.name = "b0", .address = 2, .lockableBytes = 32u << 20}});
  EXPECT_TRUE(eventually(
      [&] { return statistics(*b_).rdma.reason.find("RLIMIT_MEMLOCK") != std::string::npos; }));
  const auto wanted = hold(*a_, *b_);
  read(*b_, wanted, 0);
  EXPECT_EQ(of(*b_, "a").rdmaBytesReceived, 0u);
}

TEST_F(RdmaTest, WorksOverTcpWithoutALibraryAndSaysWhy) {
  const TemporaryFolder folder;
  const auto engine =
      open(folder, {.use = RdmaUse::kAuto, .library = "libibverbs-of-no-machine.so.1"});
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const RdmaStatistics rdma = runOn((*engine)->home(), (*engine)->statistics()).rdma;
  EXPECT_THAT(rdma.reason, HasSubstr("libibverbs-of-no-machine"));
  EXPECT_THAT(rdma.reason, HasSubstr("install libibverbs1"));
  EXPECT_TRUE(rdma.ports.empty());
}

TEST_F(RdmaTest, LoadsNoLibraryWhereItIsOff) {
  const TemporaryFolder folder;
  bool isLoaded = false;
  const auto engine = open(folder, {.load = [&](const std::string&) {
                             isLoaded = true;
                             return Error{ErrorCode::kNotFound, "none"};
                           }});
  ASSERT_TRUE(engine.ok());
  EXPECT_FALSE(isLoaded);
  EXPECT_EQ(runOn((*engine)->home(), (*engine)->statistics()).rdma.reason, "");
}

class RequiredRdmaTest : public RdmaTest {
 protected:
  // The message of a start that fails.
  std::string refusal(PortOptions port) {
    const TemporaryFolder folder;
    auto verbs = std::make_shared<InProcessVerbs>(fabric_, std::vector{std::move(port)});
    const auto engine = open(
        folder, {.use = RdmaUse::kRequired,
                 .load = [verbs](const std::string&) { return std::shared_ptr<Verbs>(verbs); }});
    return engine.ok() ? "" : engine.error().message;
  }
};

TEST_F(RequiredRdmaTest, StartsWithAPort) { EXPECT_EQ(refusal({}), ""); }

TEST_F(RequiredRdmaTest, StartsWithAPortThatHasNoWindows) {
  EXPECT_EQ(refusal({.hasWindows = false}), "");
}

TEST_F(RequiredRdmaTest, DoesNotStartWithoutAPort) {
  EXPECT_THAT(refusal({.active = false}), HasSubstr("RDMA is required and cannot be used"));
}

TEST_F(RequiredRdmaTest, DoesNotStartWhenMemoryCannotBePinned) {
  // Not even messages, and then messages and copies alone.
  EXPECT_THAT(refusal({.lockableBytes = 1u << 20}), HasSubstr("RLIMIT_MEMLOCK"));
  EXPECT_THAT(refusal({.lockableBytes = 32u << 20}), HasSubstr("RLIMIT_MEMLOCK"));
}

}  // namespace
}  // namespace hearth::testing_cluster
