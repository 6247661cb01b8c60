// Whole engines on a network in which answers are late, lost, wrong, broken off and stalled. Every
// byte is right in the end, the origin is spared, and no memory is lost. NETWORK_TORTURE_SEED
// chooses other faults.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "files/testing/held_back_file_system.h"
#include "transport/testing/memory_network.h"

namespace hearth::testing_cluster {
namespace {

using testing_rails::MemoryNetwork;
using testing_rails::NetworkFaults;
using testing_support::DiskControl;
using testing_support::HeldBackFileSystem;

constexpr unsigned kSeeds = 4;

NetworkFaults faultsFrom(std::mt19937_64& random) {
  const auto upTo = [&random](unsigned most) {
    return static_cast<unsigned>(random() % (most + 1));
  };
  return {.rails = {.refused = upTo(3),
                    .failed = upTo(10),
                    .corrupt = upTo(5),
                    .dropped = upTo(2),
                    .stalled = upTo(2),
                    .ended = upTo(4),
                    .latestTurn = upTo(8)},
          .lost = upTo(1),
          .answerLost = upTo(1),
          .broken = upTo(10)};
}

void expectBytes(Agent& agent, const std::shared_ptr<Dataset>& dataset, const Origin& origin) {
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const std::string name(dataset->manifest->path(entry));
    const std::string all = origin.bytesOf(name);
    auto read = agent.await(agent.engine().contents().read(dataset, entry, 0, all.size()));
    ASSERT_TRUE(read.ok()) << name << ": " << read.error().message;
    EXPECT_TRUE(std::ranges::equal(*read, std::as_bytes(std::span(all)))) << name;
  }
}

// Reads straight into memory, from agents that have the file, in parts that begin and end anywhere.
void expectBytesDirectly(Agent& agent, const std::shared_ptr<Dataset>& dataset,
                         const Origin& origin, std::mt19937_64& random) {
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const std::string name(dataset->manifest->path(entry));
    const std::string all = origin.bytesOf(name);
    const std::size_t from = random() % all.size();
    const std::size_t size = 1 + random() % (all.size() - from);
    const auto memory = std::make_shared<std::vector<std::byte>>(size);
    const std::size_t cut = random() % size;
    const MemoryVector into({MemorySlice::of(std::span(*memory).first(cut), memory),
                             MemorySlice::of(std::span(*memory).subspan(cut), memory)});
    const Status read = agent.await(agent.engine().contents().read(dataset, entry, from, into));
    ASSERT_TRUE(read.ok()) << name << ": " << read.error().message;
    const auto expected = std::as_bytes(std::span(all)).subspan(from, size);
    EXPECT_TRUE(std::ranges::equal(*memory, expected)) << name;
  }
}

void expectAllMemoryBack(Agent& agent) {
  EXPECT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).buffersInUse == 0;
  })) << agent.name();
}

class NetworkTorture : public testing::TestWithParam<unsigned> {};

TEST_P(NetworkTorture, AllAgentsGetEveryByte) {
  const char* const chosen = std::getenv("NETWORK_TORTURE_SEED");
  const std::uint64_t seed = (chosen ? std::strtoull(chosen, nullptr, 10) : 1) + GetParam();
  SCOPED_TRACE("NETWORK_TORTURE_SEED=" + std::to_string(seed - GetParam()));
  std::mt19937_64 random(seed);
  MemoryNetwork network(faultsFrom(random), random());
  Origin origin;
  for (int i = 0; i < 4; ++i)
    origin.add("file" + std::to_string(i), 5'000'000 + random() % 9'000'000);
  for (int i = 0; i < 20; ++i) origin.add("small" + std::to_string(i), 1 + random() % 100'000);
  const auto onNetwork = [&](EngineOptions& options) { options.transport = network.factory(); };
  Agent a("a", onNetwork), b("b", onNetwork), c("c", onNetwork), reader("reader", onNetwork);
  const std::vector<Agent*> agents{&a, &b, &c};
  connect({&a, &b, &c, &reader});
  std::vector<std::shared_ptr<Dataset>> datasets;
  for (Agent* const agent : agents) datasets.push_back(agent->add(origin));
  for (std::size_t i = 0; i < agents.size(); ++i) agents[i]->beginWarm(datasets[i]);
  std::uint64_t fromPeers = 0, fromOrigin = 0;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    const WarmProgress progress = agents[i]->awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded) << agents[i]->name();
    fromPeers += progress.peerBytes;
    fromOrigin += progress.originBytes;
    expectBytes(*agents[i], datasets[i], origin);
  }
  // Some chunks are granted twice, as the directory does not always hear what an agent has or gives
  // up.
  EXPECT_GE(fromOrigin, origin.bytes());
  EXPECT_LT(fromOrigin, 2 * origin.bytes());
  EXPECT_GT(fromPeers, origin.bytes());
  expectBytesDirectly(reader, reader.add(origin), origin, random);
  for (Agent* const agent : {&a, &b, &c, &reader}) expectAllMemoryBack(*agent);
  for (Agent* const agent : {&a, &b, &c, &reader}) agent->stop();
  EXPECT_GT(network.faultsMet(), 0u);
}

// Agents with memory for eight chunks each read from each other, and the disk of one of them takes
// nothing: its memory fills with chunks that wait for the disk, and the others must not wait for
// it.
TEST_P(NetworkTorture, ADiskThatHangsStopsNoOtherAgent) {
  std::mt19937_64 random(100 + GetParam());
  MemoryNetwork network(faultsFrom(random), random());
  Origin origin;
  for (int i = 0; i < 6; ++i)
    origin.add("file" + std::to_string(i), 9'000'000 + random() % 5'000'000);
  const auto disk = std::make_shared<DiskControl>();
  const auto small = [&](EngineOptions& options) {
    options.transport = network.factory();
    options.shards = 1;
    options.bufferBytes = 8 * std::uint64_t{kChunkBytes};
  };
  Agent a("a", small), b("b", small), hanging("hanging", [&](EngineOptions&options) {
    small(options);
    options.cacheDirectories.front().stall = Clock::duration::max();
    options.files = [disk](Reactor& reactor) {
      return std::make_unique<HeldBackFileSystem>(reactor, disk);
    };
  });
  connect({&a, &b, &hanging});
  disk->stopped = true;
  for (Agent* const agent : {&hanging, &a, &b}) agent->beginWarm(agent->add(origin));
  for (Agent* const agent : {&a, &b}) {
    const WarmProgress progress = agent->awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded)
        << agent->name() << ": " << (progress.error ? progress.error->message : "");
  }
  EXPECT_EQ(disk->written.load(), 0u);
  disk->stopped = false;
  ASSERT_EQ(hanging.awaitWarm().state, WarmState::kSucceeded);
  for (Agent* const agent : {&a, &b, &hanging}) {
    expectBytes(*agent, agent->add(origin), origin);
    expectAllMemoryBack(*agent);
  }
  for (Agent* const agent : {&a, &b, &hanging}) agent->stop();
}

// Eight agents pass chunks on to one another from an origin that breaks off anywhere.
TEST_P(NetworkTorture, EightAgentsGetEveryByteOfAnOriginThatBreaksOff) {
  std::mt19937_64 random(200 + GetParam());
  // Each chunk is read in many pieces, and one that never comes is waited for as a chunk is.
  NetworkFaults faults = faultsFrom(random);
  faults.rails.dropped = faults.rails.stalled = faults.lost = faults.answerLost = 0;
  MemoryNetwork network(faults, random());
  const std::vector<char> bytes = pattern(3 * kChunkBytes + 12'345, GetParam());
  std::mutex mutex;
  const auto part = [&](std::size_t size) {
    const std::lock_guard lock(mutex);
    return random() % 3 == 0 ? random() % size : size;
  };
  const RangeServer server(bytes.size(), [&](int fd, std::uint64_t first, std::uint64_t last) {
    const auto size = static_cast<std::size_t>(last - first + 1);
    RangeServer::send(fd, {bytes.data() + first, part(size)});
  });
  const auto small = [&](EngineOptions& options) {
    options.transport = network.factory();
    options.shards = 1;
    options.bufferBytes = 8 * std::uint64_t{kChunkBytes};
  };
  std::deque<Agent> agents;
  std::vector<Agent*> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(&agents.emplace_back("agent" + std::to_string(i), small));
  connect(all);
  for (Agent* const agent : all) {
    const auto added = agent->await(agent->engine().manifests().add(server.manifest()));
    ASSERT_TRUE(added.ok());
    (*added)->locations.setBase(server.location());
    agent->beginWarm(*added);
  }
  std::uint64_t fromPeers = 0;
  for (Agent* const agent : all) {
    const WarmProgress progress = agent->awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded)
        << agent->name() << ": " << (progress.error ? progress.error->message : "");
    fromPeers += progress.peerBytes;
    const auto& dataset = agent->engine().findJob("warm")->options().dataset;
    const auto read = agent->await(agent->engine().contents().read(
        dataset, filesOf(*dataset->manifest).front(), 0, bytes.size()));
    ASSERT_TRUE(read.ok()) << agent->name();
    EXPECT_TRUE(std::ranges::equal(*read, std::as_bytes(std::span(bytes)))) << agent->name();
    expectAllMemoryBack(*agent);
  }
  EXPECT_GT(fromPeers, 4 * bytes.size());
  for (Agent* const agent : all) agent->stop();
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkTorture, testing::Range(0u, kSeeds));

}  // namespace
}  // namespace hearth::testing_cluster
