// Engines whose arena the holder keeps: a holder in this process, and previous agents in processes
// of their own, which are killed.
#include "engine/arena_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "holder/holder_client.h"
#include "memory/testing/set_huge_pages.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::AgentBefore;
using testing_cluster::TemporaryFolder;

constexpr std::uint64_t kArenaBytes = 24 * std::uint64_t{kChunkBytes};
const std::string kName = ArenaSource::nameOf(ArenaPageKind::kTransparent);

class ArenaSourceTest : public ::testing::Test {
 protected:
  void TearDown() override { endHolder(); }
  void startHolder(std::uint64_t touchBytes = 0) { holder_.start(touchBytes); }
  void endHolder() { holder_.stop(); }
  std::function<void(EngineOptions&)> options(std::uint64_t bytes = kArenaBytes) {
    return [this, bytes](EngineOptions& options) {
      options.holder = socket();
      options.bufferBytes = bytes;
      options.formerAgentsTimeout = timeout_;
    };
  }
  // A previous agent that gives the holder the memory that `make` returns.
  AgentBefore::Body keeping(std::function<void(HolderClient&)> make) {
    return [this, make = std::move(make)](const std::function<void()>&) {
      auto client = HolderClient::connect(socket());
      ASSERT_TRUE(client.ok() && (*client)->attach("a").ok());
      make(**client);
    };
  }
  static void keep(HolderClient& client, const std::string& name, std::uint64_t bytes,
                   const OwnedFd& file) {
    HolderMemory memory;
    memory.name = name;
    memory.bytes = bytes;
    memory.generation = 1;
    const Status kept = client.keepMemory(memory, file);
    EXPECT_TRUE(kept.ok()) << kept.error().message;
  }
  static std::unique_ptr<Arena> arenaOf(std::uint64_t bytes) {
    ArenaOptions options;
    options.bytes = bytes;
    return std::move(*Arena::create(options));
  }
  // The agent begins again, for this reason.
  void expectGivenUp(const std::string& reason) {
    Agent agent("a", options());
    const auto use = agent.await(agent.engine().statistics()).arena;
    EXPECT_FALSE(use.origin.adopted);
    EXPECT_NE(use.origin.givenUp.find(reason), std::string::npos) << use.origin.givenUp;
    EXPECT_EQ(use.unkept, "") << "the new one is kept instead";
    EXPECT_EQ(use.bytes, kArenaBytes);
    EXPECT_EQ(use.foundBytes, 0u);
  }
  // The owner's memory at the holder, when no agent is there.
  ArenaIdentity held(const std::string& name = kName) {
    auto client = HolderClient::connect(socket());
    EXPECT_TRUE(client.ok() && (*client)->attach("a").ok());
    const auto kept = (*client)->takeMemory(name);
    struct stat about {};
    if (!kept.ok() || ::fstat(kept->descriptor.get(), &about) != 0) return {};
    return {about.st_dev, about.st_ino, kept->record.bytes};
  }
  // Lets a previous agent give the memory of `make` to the holder, and end.
  void expectGivenUp(const std::string& reason, std::function<void(HolderClient&)> make) {
    AgentBefore before(keeping(std::move(make)));
    startHolder();
    before.run();
    before.kill();
    expectGivenUp(reason);
  }
  std::string socket() const { return folder_.path("holder.sock"); }

  TemporaryFolder folder_;
  testing_cluster::TestingHolder holder_{folder_.path("holder.sock")};
  // One process is several agents in some tests, and never ends.
  std::chrono::milliseconds timeout_{10'000};
};

// An agent that publishes a chunk in slot 3 and says in a shared page which arena it has.
void publishOne(Engine& engine, ArenaIdentity& identity) {
  EngineCommons& commons = engine.commons();
  const std::span<std::byte> bytes = commons.arena->bytes(3);
  std::ranges::fill(bytes, std::byte{0x5a});
  SlotContents contents{{}, 7, kChunkBytes, {}};
  contents.key.bytes.fill(9);
  std::ranges::copy(crc32cOfBlocks(bytes, kBlockBytes), contents.crcs.begin());
  (void)commons.index->beginFill(3);
  commons.index->publish(3, contents);
  identity = commons.arena->identity();
}

struct SharedIdentity {
  SharedIdentity()
      : identity(static_cast<ArenaIdentity*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedIdentity() { ::munmap(identity, 4096); }
  SharedIdentity(const SharedIdentity&) = delete;
  SharedIdentity& operator=(const SharedIdentity&) = delete;
  ArenaIdentity* const identity;
};

TEST_F(ArenaSourceTest, TakesOverAKilledAgentsArenaAndItsChunks) {
  const SharedIdentity before;
  AgentBefore first([&](const std::function<void()>& live) {
    Agent agent("a", options());
    publishOne(agent.engine(), *before.identity);
    live();
  });
  startHolder();
  first.run();
  first.kill();

  Agent agent("a", options());
  EngineCommons& commons = agent.engine().commons();
  EXPECT_EQ(commons.arena->identity(), *before.identity);
  const auto use = agent.await(agent.engine().statistics()).arena;
  EXPECT_TRUE(use.origin.adopted);
  EXPECT_EQ(use.origin.givenUp, "");
  EXPECT_EQ(use.unkept, "");
  EXPECT_EQ(use.foundBytes, kChunkBytes);
  ASSERT_EQ(commons.found.valid.size(), 1u);
  EXPECT_EQ(commons.found.valid.front().slot, 3u);
  EXPECT_EQ(commons.found.valid.front().contents.chunk, 7u);
  EXPECT_EQ(commons.arena->bytes(3).front(), std::byte{0x5a});
  EXPECT_EQ(commons.found.quarantined, 0u) << "all other slots got other pages";
  EXPECT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).arena.committedBytes == kArenaBytes;
  }));
}

TEST_F(ArenaSourceTest, GivesUpAnArenaOfAnotherSize) {
  expectGivenUp("48 MiB, and 96 MiB are wanted", [](HolderClient& client) {
    keep(client, kName, kArenaBytes / 2, arenaOf(kArenaBytes / 2)->file());
  });
  // The holder has nothing of the old arena, and only the new one.
  EXPECT_EQ(held().bytes, kArenaBytes);
}

TEST_F(ArenaSourceTest, GivesUpAnArenaWithoutItsIndex) {
  expectGivenUp("what is in it is not known", [](HolderClient& client) {
    keep(client, kName, kArenaBytes, arenaOf(kArenaBytes)->file());
  });
}

TEST_F(ArenaSourceTest, GivesUpAnArenaWithTheIndexOfAnother) {
  expectGivenUp("it is of another arena", [](HolderClient& client) {
    const auto other = arenaOf(kArenaBytes);
    const auto index = std::move(*ArenaIndex::create(*other));
    keep(client, kName, kArenaBytes, arenaOf(kArenaBytes)->file());
    keep(client, ArenaSource::kIndexName, index->bytes(), index->file());
  });
}

TEST_F(ArenaSourceTest, GivesUpMemoryThatIsNoArena) {
  expectGivenUp("", [](HolderClient& client) {
    OwnedFd writable(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(writable.get(), kArenaBytes), 0);
    // The holder takes the memory, but an agent maps none that it may not write.
    ASSERT_EQ(::fcntl(writable.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
    keep(client, kName, kArenaBytes, writable);
  });
}

TEST_F(ArenaSourceTest, DoesNotUseTheArenaOfALivingAgent) {
  timeout_ = std::chrono::milliseconds(100);
  AgentBefore before(keeping([](HolderClient& client) {
    const auto arena = arenaOf(kArenaBytes);
    const auto index = std::move(*ArenaIndex::create(*arena));
    keep(client, kName, kArenaBytes, arena->file());
    keep(client, ArenaSource::kIndexName, index->bytes(), index->file());
  }));
  startHolder();
  before.run();
  const ArenaIdentity its = held();
  expectGivenUp("may still write into it");
  EXPECT_NE(held(), its);
}

TEST_F(ArenaSourceTest, AnotherKindOfPagesIsAnotherArena) {
  const std::string huge = ArenaSource::nameOf(ArenaPageKind::kHuge2M);
  AgentBefore before(keeping([&](HolderClient& client) {
    keep(client, huge, kArenaBytes, arenaOf(kArenaBytes)->file());
  }));
  startHolder();
  before.run();
  before.kill();
  { const Agent agent("a", options()); }
  EXPECT_EQ(held(huge).bytes, 0u) << "no agent takes it any more";
  EXPECT_EQ(held().bytes, kArenaBytes);
}

TEST_F(ArenaSourceTest, GivesTheArenaToTheNextHolder) {
  startHolder();
  ArenaIdentity its;
  {
    Agent agent("a", options());
    its = agent.engine().commons().arena->identity();
    const auto unkept = [&] { return agent.await(agent.engine().statistics()).arena.unkept; };
    EXPECT_EQ(unkept(), "");
    endHolder();
    EXPECT_TRUE(eventually([&] { return !unkept().empty(); }));
    startHolder();
    EXPECT_TRUE(eventually([&] { return unkept().empty(); }));
  }
  EXPECT_EQ(held(), its);
  EXPECT_NE(held(ArenaSource::kIndexName).bytes, 0u);
}

TEST_F(ArenaSourceTest, GivesTheArenaToTheFirstHolderThatComes) {
  ArenaIdentity its;
  {
    Agent agent("a", options());
    its = agent.engine().commons().arena->identity();
    const auto use = agent.await(agent.engine().statistics()).arena;
    EXPECT_NE(use.unkept, "");
    EXPECT_EQ(use.origin.givenUp, "");
    EXPECT_FALSE(use.touchedByHolder);
    startHolder();
    // Connects, as a caller that waits for its mounts does.
    EXPECT_TRUE(agent.await(agent.engine().mounts().resume()).ok());
    EXPECT_EQ(agent.await(agent.engine().statistics()).arena.unkept, "");
  }
  EXPECT_EQ(held(), its);
}

TEST_F(ArenaSourceTest, WithoutASocketStatusSaysThatNothingIsConfigured) {
  Agent agent("a", [](EngineOptions& options) { options.bufferBytes = kArenaBytes; });
  const auto use = agent.await(agent.engine().statistics()).arena;
  EXPECT_NE(use.unkept.find("configured"), std::string::npos) << use.unkept;
}

TEST_F(ArenaSourceTest, AHolderThatTouchesMemoryIsChargedForAllOfIt) {
  startHolder(kArenaBytes);
  Agent agent("a", options());
  EXPECT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).arena.committedBytes == kArenaBytes;
  }));
  EXPECT_TRUE(agent.await(agent.engine().statistics()).arena.touchedByHolder);
  agent.stop();
  auto client = HolderClient::connect(socket());
  ASSERT_TRUE(client.ok() && (*client)->attach("a").ok());
  EXPECT_TRUE((*client)->takeMemory(kName)->record.touched);
}

TEST_F(ArenaSourceTest, AnArenaIsNoLargerThanItsHolderTouches) {
  startHolder(kArenaBytes);
  Agent agent("a", options(2 * kArenaBytes));
  const auto use = [&] { return agent.await(agent.engine().statistics()).arena; };
  EXPECT_EQ(use().bytes, kArenaBytes);
  EXPECT_NE(use().origin.smaller.find("--arena-bytes"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return use().committedBytes == kArenaBytes; }));
}

TEST_F(ArenaSourceTest, HugePagesAreTakenByTheHolderAndOutliveTheAgent) {
  const testing_memory::SetHugePages pages(kArenaBytes >> 21);
  if (!pages.there()) GTEST_SKIP() << "no huge pages can be set apart here";
  const SharedIdentity before;
  const auto huge = [this](EngineOptions& changed) {
    options()(changed);
    changed.arenaPages = ArenaPageKind::kHuge2M;
  };
  AgentBefore first([&](const std::function<void()>& live) {
    Agent agent("a", huge);
    publishOne(agent.engine(), *before.identity);
    live();
  });
  startHolder(kArenaBytes);
  first.run();
  first.kill();
  Agent agent("a", huge);
  const auto use = agent.await(agent.engine().statistics()).arena;
  EXPECT_TRUE(use.origin.adopted) << use.origin.givenUp;
  EXPECT_EQ(agent.engine().commons().arena->identity(), *before.identity);
  EXPECT_EQ(use.pages.kind, ArenaPageKind::kHuge2M);
  EXPECT_TRUE(use.touchedByHolder);
  EXPECT_EQ(use.committedBytes, kArenaBytes) << "also those that replaced quarantined ones";
  EXPECT_EQ(use.foundBytes, kChunkBytes);
}

// The shards could not get on with fewer slots, so nobody takes the room ahead.
TEST_F(ArenaSourceTest, TakesNoRoomThatTheHolderDoesNotTouch) {
  startHolder(kChunkBytes);
  std::mutex mutex;
  std::string lines;
  const auto note = [&](const EngineEvent& event) {
    const std::lock_guard lock(mutex);
    lines += event.message;
  };
  Agent agent("a", 4ull << 30, note, "", options());
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return lines.find("memory for chunks is missing") != std::string::npos;
  }));
  EXPECT_EQ(agent.await(agent.engine().statistics()).arena.committedBytes, 0u);
}

// The machine is short of processors for a while.
TEST_F(ArenaSourceTest, AsksAgainForRoomThatDoesNotComeInTime) {
  holder_.start(kArenaBytes, std::chrono::milliseconds(0));
  Agent agent("a", options());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  endHolder();
  startHolder(kArenaBytes);
  EXPECT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).arena.committedBytes == kArenaBytes;
  }));
}

// A process lives on whose arena was given up.
TEST_F(ArenaSourceTest, TakesRoomWhenOthersGiveItBack) {
  startHolder(kArenaBytes);
  auto other = HolderClient::connect(socket());
  ASSERT_TRUE(other.ok() && (*other)->attach("other").ok());
  keep(**other, "arena", kArenaBytes, arenaOf(kArenaBytes)->file());
  ASSERT_TRUE((*other)->touchMemory("arena", 0, kChunkBytes).ok());
  Agent agent("a", options());
  const auto committed = [&] {
    return agent.await(agent.engine().statistics()).arena.committedBytes;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(committed(), 0u);
  ASSERT_TRUE((*other)->dropMemory("arena").ok());
  EXPECT_TRUE(eventually([&] { return committed() == kArenaBytes; }));
}

// The holder lets the arena grow: mapped memory stays mapped.
TEST_F(ArenaSourceTest, GivesUpAnArenaThatHasGrown) {
  expectGivenUp("it is not as long as the mount holder says", [](HolderClient& client) {
    OwnedFd grown(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(grown.get(), kArenaBytes), 0);
    ASSERT_EQ(::fcntl(grown.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    keep(client, kName, kArenaBytes, grown);
    ASSERT_EQ(::ftruncate(grown.get(), std::int64_t{1} << 60), 0);
  });
}

}  // namespace
}  // namespace hearth
