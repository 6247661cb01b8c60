#include "mount/mount_advice.h"

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kFile = 2u << 20;
constexpr int kFiles = 20;
constexpr std::uint64_t kReader = 1;
constexpr std::uint64_t kOther = 2;

class MountAdviceTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kFiles; ++i) origin.add("sub/part" + std::to_string(100 + i), kFile);
    origin.add("other", kFile);
    // The agent does not know the location of the bytes yet, so no request ends by itself.
    const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
    ASSERT_TRUE(added.ok());
    dataset = *added;
    source =
        std::make_unique<DatasetSource>(*agent.engine().commons().mounting, dataset, "test", false);
  }
  void setLocations() {
    Location base;
    base.path = origin.folder();
    base.below = base.path;
    dataset->locations.setBase(std::move(base));
  }
  std::uint32_t entry(const std::string& path) { return *dataset->manifest->lookUp(path); }
  std::uint32_t part(int i) { return entry("sub/part" + std::to_string(100 + i)); }

  Origin origin;
  Agent agent{"one"};
  std::shared_ptr<Dataset> dataset;
  std::unique_ptr<DatasetSource> source;
};

TEST_F(MountAdviceTest, DoesTheSameOnce) {
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(source->advise(part(3), Advice::kWillNeed, kReader).ok());
  EXPECT_EQ(source->advice().underWay(), 1u);
  ASSERT_TRUE(source->advise(entry("other"), Advice::kWillNeed, kReader).ok());
  EXPECT_EQ(source->advice().underWay(), 2u);
  setLocations();
  EXPECT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  EXPECT_TRUE(source->complete(part(0)));
  EXPECT_TRUE(source->complete(part(kFiles - 1)));
  EXPECT_TRUE(source->complete(entry("other")));
}

TEST_F(MountAdviceTest, SomeRequestsAReaderAtATime) {
  for (std::size_t i = 0; i < MountAdvice::kMaxRequests; ++i)
    ASSERT_TRUE(source->advise(part(static_cast<int>(i)), Advice::kWillNeed, kReader).ok());
  EXPECT_EQ(source->advise(entry("other"), Advice::kWillNeed, kReader).code(),
            ErrorCode::kUnavailable);
  setLocations();
  EXPECT_TRUE(
      eventually([&] { return source->advise(entry("other"), Advice::kWillNeed, kReader).ok(); }));
}

// A reader's advice is taken and goes on, whatever another reader has under way.
TEST_F(MountAdviceTest, AReaderTakesNothingFromAnother) {
  for (std::size_t i = 0; i < MountAdvice::kMaxRequests; ++i)
    ASSERT_TRUE(source->advise(part(static_cast<int>(i)), Advice::kWillNeed, kReader).ok());
  ASSERT_EQ(source->advise(entry("other"), Advice::kWillNeed, kReader).code(),
            ErrorCode::kUnavailable);
  EXPECT_TRUE(source->advise(entry("other"), Advice::kWillNeed, kOther).ok());
  ASSERT_EQ(source->advise(part(kFiles - 1), Advice::kWillNeed, kReader).code(),
            ErrorCode::kUnavailable)
      << "what the other one has under way is no room";
  setLocations();
  EXPECT_TRUE(eventually([&] { return source->complete(entry("other")); }));
}

TEST_F(MountAdviceTest, TheOppositeEndsNothingThatAnotherReaderWants) {
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kOther).ok());
  ASSERT_EQ(source->advice().underWay(), 1u);
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kDontNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 1; }));
  setLocations();
  EXPECT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(source->complete(part(i))) << i;
}

TEST_F(MountAdviceTest, TheOppositeEndsARequest) {
  ASSERT_TRUE(source->advise(part(3), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kDontNeed, kReader).ok());
  setLocations();
  EXPECT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
}

// There is no room for the opposite: the request that it would have ended goes on.
TEST_F(MountAdviceTest, ARefusedOppositeEndsNothing) {
  constexpr int kMax = static_cast<int>(MountAdvice::kMaxRequests);
  for (int i = 0; i < kMax; ++i)
    ASSERT_TRUE(source->advise(part(i), Advice::kWillNeed, kReader).ok());
  ASSERT_EQ(source->advise(entry("sub"), Advice::kDontNeed, kReader).code(),
            ErrorCode::kUnavailable);
  setLocations();
  EXPECT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  for (int i = 0; i < kMax; ++i) EXPECT_TRUE(source->complete(part(i))) << i;
}

TEST_F(MountAdviceTest, EndsWithItsMount) {
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  source.reset();
  setLocations();
  const auto background = [&] {
    struct Count {
      static Task<std::size_t> all(Engine& engine) {
        std::size_t sum = 0;
        for (const std::unique_ptr<Shard>& shard : engine.commons().shards) {
          co_await shard->reactor->enter();
          sum += shard->gate->inside();
        }
        co_await engine.home().enter();
        co_return sum;
      }
    };
    return agent.await(Count::all(agent.engine()));
  };
  ASSERT_TRUE(eventually([&] { return background() == 0; }));
  // Chunks that had their turn at the origin came; the others were given up.
  EXPECT_LT(agent.await(agent.engine().contents().residency(dataset)).bytesResident,
            kFiles * kFile / 2);
}

TEST_F(MountAdviceTest, EvictsFilesThatAreNotOpen) {
  setLocations();
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  const auto opened = source->openFile(part(0));
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kDontNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  EXPECT_TRUE(source->complete(part(0)));
  for (int i = 1; i < kFiles; ++i) EXPECT_EQ(source->residentBytes(part(i)), 0u) << i;
}

TEST_F(MountAdviceTest, LetsGoOfMemoryAlone) {
  setLocations();
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  const auto inMemory = [&] { return agent.await(agent.engine().statistics()).arena.keptBytes; };
  ASSERT_GT(inMemory(), 0u);
  const auto opened = source->openFile(part(0));
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kDontNeedMemory, kReader).ok());
  EXPECT_TRUE(eventually([&] { return inMemory() == 0; }));
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(source->complete(part(i))) << i;
}

TEST_F(MountAdviceTest, KeepsFilesThatTheOriginLacks) {
  setLocations();
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  std::filesystem::remove(origin.folder() + "/other");
  const auto reading = agent.await(agent.engine().contents().read(dataset, entry("other"), 0, 1));
  ASSERT_FALSE(reading.ok());
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kDontNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  for (int i = 0; i < kFiles; ++i) EXPECT_TRUE(source->complete(part(i))) << i;
}

TEST_F(MountAdviceTest, IsCounted) {
  setLocations();
  ASSERT_TRUE(source->advise(entry("sub"), Advice::kWillNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  ASSERT_TRUE(source->advise(part(0), Advice::kDontNeed, kReader).ok());
  ASSERT_TRUE(eventually([&] { return source->advice().underWay() == 0; }));
  const EngineStatistics counted = agent.await(agent.engine().statistics());
  EXPECT_EQ(counted.willNeed, 1u);
  EXPECT_EQ(counted.willNeedBytes, kFiles * kFile);
  EXPECT_EQ(counted.dontNeed, 1u);
  EXPECT_EQ(counted.dontNeedBytes, kFile);
}

// As many readers as a mount has room for fill their parts; then there is room for none.
TEST(MountAdvice, AMountHasABoundForAllOfItsReaders) {
  constexpr std::size_t kMax = MountAdvice::kMaxReaders * MountAdvice::kMaxRequests;
  Origin origin;
  for (std::size_t i = 0; i <= kMax; ++i) origin.add("part" + std::to_string(1000 + i), 1);
  Agent agent("one");
  const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
  ASSERT_TRUE(added.ok());
  const std::vector<std::uint32_t> files = filesOf(*(*added)->manifest);
  DatasetSource source(*agent.engine().commons().mounting, *added, "test", false);
  for (std::size_t i = 0; i < kMax; ++i)
    ASSERT_TRUE(source.advise(files[i], Advice::kWillNeed, i / MountAdvice::kMaxRequests).ok())
        << i;
  EXPECT_EQ(source.advise(files[kMax], Advice::kWillNeed, MountAdvice::kMaxReaders).code(),
            ErrorCode::kUnavailable);
  EXPECT_EQ(source.advice().underWay(), kMax);
}

TEST(MountAdvice, RefusesMoreFilesThanMayBe) {
  ManifestBuilder builder(false);
  for (std::size_t i = 0; i <= MountAdvice::kMaxFiles; ++i) {
    ManifestRow row;
    row.path = "many/" + std::to_string(i);
    row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
    builder.add(std::move(row));
  }
  const Result<std::vector<std::byte>> bytes = builder.build();
  ASSERT_TRUE(bytes.ok());
  Agent agent("one");
  const auto added = agent.await(agent.engine().manifests().add(*bytes));
  ASSERT_TRUE(added.ok());
  DatasetSource source(*agent.engine().commons().mounting, *added, "test", false);
  EXPECT_EQ(source.advise(0, Advice::kWillNeed, kReader).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(source.advise(0, Advice::kDontNeed, kReader).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(
      source.advise(*(*added)->manifest->lookUp("many/7"), Advice::kWillNeed, kReader).ok());
}

}  // namespace
}  // namespace hearth::testing_cluster
