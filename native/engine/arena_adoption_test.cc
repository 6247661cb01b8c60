// The next agent finds the chunks that an agent had in memory, whether that was killed or ended in
// order.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fetch/fetcher.h"
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

// Reads the file's first chunk into a slot for a client's answer.
Task<void> readForAClient(Shard& shard, FileReference file, std::atomic<std::size_t>& slot) {
  std::vector<ChunkBuffer> buffers = co_await shard.clientBuffers->acquire(Priority::kDemand, 1);
  slot = buffers.front().slot();
  const auto memory = loadInto(*shard.reactor, std::move(buffers.front()), kChunkBytes);
  const auto opened = co_await shard.fetcher->open(std::move(file));
  if (!opened.ok()) co_return;
  (void)co_await shard.fetcher->readInto(*opened, 0,
                                         MemoryVector(memory->buffer.slice(kChunkBytes, memory)));
}

// The slots that the read fills are found as such, and those beside them are taken over.
TEST_F(ArenaAdoption, ReadsTheMemoryOfAnAgentThatWasKilledWithADirectReadInFlight) {
  Origin unread;
  unread.add("unread", 8u << 20);
  constexpr std::size_t kNone = ~std::size_t{0};
  std::atomic<std::size_t> slot{kNone};
  const auto read = [&](Agent& agent) {
    EngineCommons& commons = agent.engine().commons();
    // The agent does not know the location of the bytes, so the read does not end by itself.
    const auto added = agent.await(agent.engine().manifests().add(unread.manifest()));
    ASSERT_TRUE(added.ok());
    const FileReference file = FileReference::of(*added, filesOf(*(*added)->manifest).front());
    Shard& shard = commons.owner(file.about.key);
    shard.reactor->post([&] { shard.gate->spawn(readForAClient(shard, file, slot)); });
    const auto filling = [&] {
      std::size_t count = 0;
      for (std::size_t each = 0; each < commons.index->slots(); ++each)
        count += commons.index->state(each) == SlotState::kFilling ? 1 : 0;
      return count;
    };
    EXPECT_TRUE(eventually([&] { return slot != kNone && filling() >= 2; }))
        << "the client's, and those of the fetch";
    EXPECT_EQ(commons.index->state(slot), SlotState::kFilling);
  };
  const auto after = next(read, origin_.bytes());
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
