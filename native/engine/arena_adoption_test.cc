// The next agent finds the chunks that an agent had in memory, whether that was killed or ended in
// order.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fetch/wanted_keys.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::AgentBefore;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;

constexpr std::uint64_t kMemory = 64 * std::uint64_t{kChunkBytes};

class ArenaAdoption : public ::testing::Test {
 protected:
  void SetUp() override {
    origin_.add("a", 12u << 20);
    origin_.add("b", (9u << 20) + 5);
  }
  std::unique_ptr<Agent> agent() {
    const auto adjust = [this](EngineOptions& options) {
      options.holder = holder_.socket();
      options.bufferBytes = kMemory;
      options.scrub.bytesPerSecond = 0;
    };
    return std::make_unique<Agent>(
        "a", 4ull << 30, [](EngineEvent) {}, folder_.path("cache"), adjust);
  }
  // An agent that has the files; `end` is called with it at last.
  AgentBefore::Body warmed(std::function<void(Agent&)> end) {
    return [this, end = std::move(end)](const std::function<void()>& live) {
      const auto before = agent();
      before->beginWarm(before->add(origin_));
      EXPECT_EQ(before->awaitWarm().state, WarmState::kSucceeded);
      end(*before);
      live();
    };
  }
  // The previous agent has ended, and the next one has `bytes` in memory.
  std::unique_ptr<Agent> next(std::function<void(Agent&)> end, std::uint64_t bytes) {
    AgentBefore before(warmed(std::move(end)));
    holder_.start();
    before.run();
    before.kill();
    auto after = agent();
    const auto kept = [&] { return after->await(after->engine().statistics()).arena.keptBytes; };
    EXPECT_TRUE(eventually([&] { return kept() == bytes; })) << kept();
    return after;
  }
  // Expects that all files are read right, from memory, as the bytes on the disk are wrong.
  void expectReadFromMemory(Agent& agent) {
    const std::shared_ptr<Dataset> dataset = agent.add(origin_);
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      const ManifestEntry about = dataset->manifest->entry(entry);
      const std::string expected = origin_.bytesOf(std::string(about.name));
      spoil(folder_.path("cache/objects/" + about.key.hex().substr(0, 2) + "/" + about.key.hex()),
            about.size);
      EXPECT_TRUE(readAll(agent, dataset, entry, about.size) == expected) << about.name;
    }
    const EngineStatistics statistics = agent.await(agent.engine().statistics());
    EXPECT_EQ(statistics.cache.corruptBlocks, 0u) << "the disk was read";
    EXPECT_EQ(statistics.origin.bytes, 0u) << "the origin was read";
  }
  static std::string readAll(Agent& agent, const std::shared_ptr<Dataset>& dataset,
                             std::uint32_t entry, std::uint64_t size) {
    std::string all;
    while (all.size() < size) {
      const auto part = agent.await(
          agent.engine().contents().read(dataset, entry, all.size(), size - all.size()));
      EXPECT_TRUE(part.ok()) << part.error().message;
      if (!part.ok() || part->empty()) break;
      all.append(reinterpret_cast<const char*>(part->data()), part->size());
    }
    return all;
  }
  static void spoil(const std::string& path, std::uint64_t size) {
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path;
    const std::vector<char> zeros(size);
    file.write(zeros.data(), static_cast<std::streamsize>(size));
  }

  TemporaryFolder folder_;
  testing_cluster::TestingHolder holder_{folder_.path("holder.sock")};
  Origin origin_;
};

TEST_F(ArenaAdoption, ReadsTheMemoryOfAKilledAgent) {
  const auto after = next([](Agent&) {}, origin_.bytes());
  expectReadFromMemory(*after);
}

TEST_F(ArenaAdoption, ReadsTheMemoryOfAnAgentThatEndedInOrder) {
  const auto after = next([](Agent& agent) { agent.stop(); }, origin_.bytes());
  expectReadFromMemory(*after);
}

// A shard has 32 of 64 slots, half of which are reserves.
TEST_F(ArenaAdoption, ReadsALargeFileFromMemoryOfOtherShards) {
  origin_.add("large", 20 * kChunkBytes);
  const auto hasMoved = [this](Agent& agent) {
    const EngineStatistics::ArenaUse arena = agent.await(agent.engine().statistics()).arena;
    EXPECT_GT(arena.movedBytes, 0u);
    EXPECT_EQ(arena.evictedFiles, 0u);
    EXPECT_EQ(arena.keptBytes, origin_.bytes());
  };
  const auto after = next(hasMoved, origin_.bytes());
  expectReadFromMemory(*after);
}

TEST_F(ArenaAdoption, TakesNoBytesThatHaveChanged) {
  const auto change = [](Agent& agent) {
    EngineCommons& commons = agent.engine().commons();
    for (std::size_t slot = 0; slot < commons.index->slots(); ++slot) {
      if (commons.index->state(slot) != SlotState::kValid) continue;
      commons.arena->bytes(slot)[77] ^= std::byte{1};
    }
  };
  const auto after = next(change, 0);
  EXPECT_EQ(after->await(after->engine().statistics()).arena.foundBytes, origin_.bytes());
}

TEST_F(ArenaAdoption, TakesNoChunkThatTheCacheLacks) {
  const auto forget = [this](Agent& agent) {
    agent.stop();
    std::filesystem::remove(folder_.path("cache/residency.log"));
  };
  const auto after = next(forget, 0);
}

}  // namespace
}  // namespace hearth
