#include "mount/prefetcher.h"

#include <future>

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kPartBytes = 2u << 20;
constexpr int kParts = 80;
// Files expected behind a file that is read, with the file itself.
constexpr std::uint64_t kBudget = (64u << 20) + kPartBytes;

class PrefetcherTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kParts; ++i) origin.add("part" + std::to_string(100 + i), kPartBytes);
  }

  void mount(std::shared_ptr<Dataset> mounted) {
    dataset = std::move(mounted);
    source =
        std::make_unique<DatasetSource>(*agent.engine().commons().mounting, dataset, "test", false);
  }
  // Another origin, of a file of `size` bytes and a small one behind it.
  void mountLargeOne(std::uint64_t size) {
    large.add("first", size);
    large.add("second", kPartBytes);
    const auto added = agent.await(agent.engine().manifests().add(large.manifest()));
    ASSERT_TRUE(added.ok());
    mount(*added);
  }
  // `below`: "", or a folder that does not exist yet.
  void setOrigin(const std::string& below) {
    Location base;
    base.path = large.folder() + below;
    base.below = base.path;
    dataset->locations.setBase(std::move(base));
  }
  // Opens a file as its first reader, who wants all of it.
  std::shared_ptr<MountSource::OpenFile> read(int file) {
    auto opened = source->openFile(filesOf(*dataset->manifest)[static_cast<std::size_t>(file)]);
    EXPECT_TRUE(opened.ok());
    (*opened)->willNeed(0, kPartBytes);
    return *opened;
  }

  // Opens a file and reads its first MiB. The reader stays there until it reads another: files
  // expected for a reader that has left are dropped after a while, also when the disk is slower.
  ErrorCode readAlone(std::size_t file, std::uint64_t offset = 0) {
    const auto opened = source->openFile(filesOf(*dataset->manifest)[file]);
    if (!opened.ok()) return opened.error().code;
    at = *opened;
    std::promise<ErrorCode> came;
    at->read(offset, 1u << 20, [&](const auto& bytes) {
      came.set_value(bytes.ok() ? ErrorCode::kOk : bytes.error().code);
    });
    return came.get_future().get();
  }

  // Runs `work` on the shard of a file.
  std::shared_ptr<LookAhead> onFile(int file, std::shared_ptr<LookAhead> (*work)(
                                                  MountShard&, const std::shared_ptr<FileFetch>&)) {
    struct Work {
      static Task<std::shared_ptr<LookAhead>> run(Engine& engine, FileReference reference,
                                                  decltype(work) what) {
        MountShard& shard = engine.commons().mounting->owner(reference.about.key);
        co_await shard.reactor.enter();
        const auto opened = co_await shard.fetcher.open(std::move(reference));
        auto found = what(shard, *opened);
        co_await engine.home().enter();
        co_return found;
      }
    };
    const std::uint32_t entry = filesOf(*dataset->manifest)[static_cast<std::size_t>(file)];
    return agent.await(Work::run(agent.engine(), FileReference::of(dataset, entry), work));
  }

  std::uint64_t resident() {
    return agent.await(agent.engine().contents().residency(dataset)).bytesResident;
  }
  struct Work {
    std::size_t expected = 0;    // files that are looked ahead to
    std::size_t background = 0;  // coroutines of any kind
  };
  Work work() {
    struct Count {
      static Task<Work> all(Engine& engine) {
        Work sum;
        for (const std::unique_ptr<MountShard>& shard : engine.commons().mounting->shards) {
          co_await shard->reactor.enter();
          sum.expected += shard->prefetcher.expected();
          sum.background += shard->gate.inside();
        }
        co_await engine.home().enter();
        co_return sum;
      }
    };
    return agent.await(Count::all(agent.engine()));
  }

  // The file's look-ahead; null: no reader is on its way to the file.
  std::shared_ptr<LookAhead> lookAheadOf(int file) {
    return onFile(file, [](MountShard&, const std::shared_ptr<FileFetch>& fetch) {
      return fetch->lookAhead;
    });
  }
  // The shard hears that a reader has read all of the file.
  void reportRead(int file) {
    onFile(file, [](MountShard& shard, const std::shared_ptr<FileFetch>& fetch) {
      shard.prefetcher.smallFileRead(fetch);
      return fetch->lookAhead;
    });
  }

  Origin origin, large;
  Agent agent{"one"};
  std::shared_ptr<Dataset> dataset;
  std::unique_ptr<DatasetSource> source;
  std::shared_ptr<MountSource::OpenFile> at;
};

TEST_F(PrefetcherTest, AReaderHasOneBudgetForTheNextFiles) {
  mount(agent.add(origin));
  const auto opened = read(0);
  ASSERT_TRUE(eventually([&] { return resident() >= kPartBytes * 2; }));
  ASSERT_TRUE(eventually([&] { return work().background == 0; }));
  EXPECT_GT(resident(), kBudget / 4);
  EXPECT_LE(resident(), kBudget);
}

TEST_F(PrefetcherTest, FilesThatAreOnlyOpenLookNoFurtherAhead) {
  mount(agent.add(origin));
  std::vector<std::shared_ptr<MountSource::OpenFile>> open;
  for (const std::uint32_t file : filesOf(*dataset->manifest)) {
    auto opened = source->openFile(file);
    ASSERT_TRUE(opened.ok());
    open.push_back(*opened);
  }
  open.front()->willNeed(0, kPartBytes);
  ASSERT_TRUE(eventually([&] { return resident() >= kPartBytes * 2; }));
  ASSERT_TRUE(eventually([&] { return work().background == 0; }));
  EXPECT_GT(resident(), kBudget / 4);
  EXPECT_LE(resident(), kBudget);
}

TEST_F(PrefetcherTest, ExpectsAReaderOfFilesAtEachFile) {
  mount(agent.add(origin));
  for (int file = 0; file < kParts; ++file) {
    const auto opened = read(file);
    const int next = std::min(file + 1, kParts - 1);
    EXPECT_TRUE(eventually([&] {
      return source->complete(filesOf(*dataset->manifest)[static_cast<std::size_t>(next)]);
    })) << next;
  }
}

TEST_F(PrefetcherTest, ExpectsAFileOnceForAReaderOfItsFolder) {
  constexpr int kSmall = 300;
  Origin small;
  for (int i = 0; i < kSmall; ++i) small.add("part" + std::to_string(1000 + i), 4096);
  mount(agent.add(small));
  const auto files = filesOf(*dataset->manifest);
  for (int file = 0; file + 1 < kSmall; ++file) {
    const auto opened = source->openFile(files[static_cast<std::size_t>(file)]);
    ASSERT_TRUE(opened.ok());
    // Opens as the kernel does, which reads complete files without asking us.
    if (!source->complete(files[static_cast<std::size_t>(file)])) (*opened)->willNeed(0, 4096);
    ASSERT_TRUE(eventually([&] {
      return source->complete(files[static_cast<std::size_t>(file + 1)]);
    })) << file;
  }
  EXPECT_TRUE(eventually([&] { return work().expected == 0; }));
}

TEST_F(PrefetcherTest, ExpectsSmallFilesAfterTwoReadInOrder) {
  Origin small;
  for (int i = 0; i < 100; ++i) small.add("part" + std::to_string(1000 + i), 4096);
  mount(agent.add(small));
  const auto files = filesOf(*dataset->manifest);
  // Reads alone say nothing of what comes next.
  const auto readWhole = [&](std::size_t file) { EXPECT_EQ(readAlone(file), ErrorCode::kOk); };
  for (const std::size_t file : {70u, 20u, 50u, 22u}) readWhole(file);  // here and there
  EXPECT_EQ(work().expected, 0u);
  readWhole(51);
  ASSERT_TRUE(eventually([&] { return source->complete(files[55]); }));
  EXPECT_FALSE(source->complete(files[56]));
  // A reader that overtakes its look-ahead, as on a busy machine, counts as a new one: this reader
  // waits for it, and so more files are expected each time.
  for (std::size_t file = 52; file < 80; ++file) {
    ASSERT_TRUE(eventually([&] { return source->complete(files[file + 3]); })) << file;
    readWhole(file);
  }
  EXPECT_TRUE(eventually([&] { return source->complete(files[99]); }));
}

TEST_F(PrefetcherTest, ALateReportOfAPassedFileLeavesTheLookAheadToItsReader) {
  mount(agent.add(origin));
  reportRead(0);
  reportRead(1);
  const std::shared_ptr<LookAhead> ahead = lookAheadOf(5);
  ASSERT_NE(ahead, nullptr);
  reportRead(3);
  reportRead(2);
  EXPECT_EQ(lookAheadOf(5), ahead);
  EXPECT_EQ(lookAheadOf(2), nullptr);
}

TEST_F(PrefetcherTest, EmptyFilesBreakNoOrder) {
  Origin small;
  const auto empty = [](std::size_t file) { return file % 2 == 1 || (file >= 40 && file < 50); };
  for (std::size_t i = 0; i < 100; ++i) {
    small.add("part" + std::to_string(1000 + i), empty(i) ? 0 : 4096);
  }
  mount(agent.add(small));
  const auto files = filesOf(*dataset->manifest);
  EXPECT_EQ(readAlone(20), ErrorCode::kOk);
  EXPECT_EQ(readAlone(22), ErrorCode::kOk);
  // Four files with bytes.
  ASSERT_TRUE(eventually([&] { return source->complete(files[30]); }));
  EXPECT_FALSE(source->complete(files[32]));
  for (std::size_t file = 24; file < 99; ++file) {
    if (empty(file)) continue;
    ASSERT_TRUE(eventually([&] { return source->complete(files[file]); })) << file;
    EXPECT_EQ(readAlone(file), ErrorCode::kOk);
  }
}

TEST_F(PrefetcherTest, GoesOnWhenAnOriginIsBack) {
  mountLargeOne(40u << 20);
  setOrigin("/away");
  const auto files = filesOf(*dataset->manifest);
  const auto opened = source->openFile(files[0]);
  ASSERT_TRUE(opened.ok());
  (*opened)->willNeed(0, 40u << 20);
  EXPECT_NE(readAlone(0), ErrorCode::kOk);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(resident(), 0u);
  setOrigin("");
  EXPECT_EQ(readAlone(0), ErrorCode::kOk);
  EXPECT_TRUE(eventually([&] { return source->complete(files[0]); }));
  EXPECT_TRUE(eventually([&] { return source->complete(files[1]); }));
}

// More chunks than read-ahead has in flight: it begins again with the chunks that failed first,
// too.
TEST_F(PrefetcherTest, BeginsAgainWhereAnOriginFailed) {
  constexpr std::uint64_t kSize = 160u << 20;
  mountLargeOne(kSize);
  setOrigin("/away");
  const auto files = filesOf(*dataset->manifest);
  const auto opened = source->openFile(files[0]);
  ASSERT_TRUE(opened.ok());
  (*opened)->willNeed(0, kSize);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  setOrigin("");
  EXPECT_EQ(readAlone(0, kSize - (1u << 20)), ErrorCode::kOk);
  EXPECT_TRUE(eventually([&] { return source->complete(files[0]); }));
}

TEST_F(PrefetcherTest, ExpectsEachOfSeveralReadersOfAFolder) {
  mount(agent.add(origin));
  const auto first = read(40);
  ASSERT_TRUE(eventually(
      [&] { return source->complete(filesOf(*dataset->manifest)[41]) && work().background == 0; }));
  // The second reader comes behind the first, into files expected for that.
  const auto second = read(8);
  for (const std::size_t file : {9u, 39u}) {
    EXPECT_TRUE(eventually([&] { return source->complete(filesOf(*dataset->manifest)[file]); }));
  }
}

TEST_F(PrefetcherTest, LookingAheadEndsWhenItsReaderHasLeft) {
  // The agent does not know the location of the bytes yet: fetches with a turn at the origin wait
  // for that.
  const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
  ASSERT_TRUE(added.ok());
  mount(*added);
  auto opened = read(0);
  ASSERT_TRUE(eventually([&] { return work().expected > 0; }));
  opened.reset();
  ASSERT_TRUE(eventually([&] { return work().expected == 0; }));
  Location base;
  base.path = origin.folder();
  base.below = base.path;
  dataset->locations.setBase(std::move(base));
  ASSERT_TRUE(eventually([&] { return work().background == 0; }));
  EXPECT_LE(resident(), kBudget / 2);
}

}  // namespace
}  // namespace hearth::testing_cluster
