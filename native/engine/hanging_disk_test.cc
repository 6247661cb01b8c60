// One of two disks hangs at one kind of call: nobody waits for it who can have the bytes elsewhere.
#include <future>

#include "engine/testing_cluster.h"
#include "engine/testing_reader.h"
#include "fetch/memory_tier.h"
#include "files/testing/faulty_file_system.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::connect;
using testing_cluster::expectFile;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;
using testing_support::DiskCall;
using testing_support::DiskFaults;
using testing_support::FaultyFileSystem;

constexpr std::uint64_t kBudget = std::uint64_t{1} << 32;

Task<bool> leaveMemory(Shard& shard) {
  co_await shard.reactor->enter();
  shard.memory->clear();
  co_return shard.memory->bytes() == 0;
}

class HangingDisk : public testing::TestWithParam<DiskCall> {
 protected:
  void SetUp() override {
    for (int i = 0; i < 8; ++i) known.add("file" + std::to_string(i), 5'000'000);
    for (int i = 0; i < 8; ++i) known.add("small" + std::to_string(i), 50'000);
    for (int i = 0; i < 8; ++i) fresh.add("fresh" + std::to_string(i), 5'000'000);
    fresh.add("empty", 0);
    connect({&agent, &other});
    dataset = agent.add(known);
    // The first directory has the manifests.
    more = agent.add(fresh);
    for (Agent* const each : {&other, &agent})
      ASSERT_NO_FATAL_FAILURE(warm(*each, each->add(known)));
    ASSERT_GE(filesOn(bad), 4u) << "files are shared out";
    forget();
    fromOrigin = originBytes();
  }
  void TearDown() override { faults->resume(); }

  void warm(Agent& on, std::shared_ptr<Dataset> whole) {
    WarmOptions options;
    options.job = "job" + std::to_string(++jobs);
    options.entries = filesOf(*whole->manifest);
    options.dataset = std::move(whole);
    options.verify = Verification::kNone;
    const std::string name = options.job;
    ASSERT_TRUE(on.engine().warm(std::move(options)).ok());
    WarmProgress progress;
    ASSERT_TRUE(eventually([&] {
      progress = on.engine().findJob(name)->progress();
      return progress.state != WarmState::kRunning;
    }));
    ASSERT_EQ(progress.state, WarmState::kSucceeded)
        << (progress.error ? progress.error->message : "");
  }
  // Bytes of the agent are on its disks alone from now on.
  void forget() {
    for (const auto& shard : agent.engine().commons().shards)
      EXPECT_TRUE(runOn(*shard->reactor, leaveMemory(*shard)));
  }
  [[nodiscard]] std::size_t filesOn(const std::string& disk) {
    std::size_t count = 0;
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      const auto file = cache().find(dataset->manifest->entry(entry).key);
      count += file != nullptr && file->path().starts_with(disk) ? 1 : 0;
    }
    return count;
  }
  // Opens and reads all files at once, as many programs would.
  void readAll() {
    DatasetSource source(*agent.engine().commons().mounting, dataset, "test", true);
    std::vector<std::future<void>> readers;
    for (std::size_t file = 0; file < known.names().size(); ++file) {
      readers.push_back(std::async(std::launch::async, [this, &source, file] {
        expectFile(source, known, file, 1u << 20);
        const auto opened = source.openFile(*source.manifest().lookUp(known.names()[file]));
        ASSERT_TRUE(opened.ok());
        (void)(*opened)->backing();
      }));
    }
    for (std::future<void>& each : readers) each.get();
  }
  [[nodiscard]] ContentCache& cache() { return *agent.engine().commons().cache; }
  [[nodiscard]] std::uint64_t originBytes() {
    return agent.engine().commons().counters.fetched.originBytes.load();
  }
  [[nodiscard]] CacheStatistics::Directory badDirectory() {
    return cache().statistics().directories.front();
  }

  TemporaryFolder folder;
  const std::string bad = folder.path() + "/bad", good = folder.path() + "/good";
  const std::shared_ptr<DiskFaults> faults = std::make_shared<DiskFaults>(bad);
  Origin known, fresh;
  Agent agent{"agent", [this](EngineOptions& options) {
                options.cacheDirectories = {{bad, kBudget, 0}, {good, kBudget, 0}};
                options.files = [faults = faults](Reactor& reactor) {
                  return std::make_unique<FaultyFileSystem>(reactor, faults);
                };
              }};
  Agent other{"other"};
  std::shared_ptr<Dataset> dataset, more;
  std::uint64_t fromOrigin = 0;
  int jobs = 0;
};

TEST_P(HangingDisk, HoldsUpNothingThatIsElsewhere) {
  faults->hang({GetParam()});
  ASSERT_NO_FATAL_FAILURE(readAll());
  EXPECT_EQ(originBytes(), fromOrigin) << "the other agent has all of it";

  ASSERT_NO_FATAL_FAILURE(warm(agent, more));
  // Evicting ends, whatever comes of it; and the other disk has room.
  for (const std::uint32_t entry : filesOf(*dataset->manifest))
    (void)agent.await(cache().evict(dataset->manifest->entry(entry).key));
  ASSERT_NO_FATAL_FAILURE(readAll());

  faults->resume();
  EXPECT_TRUE(eventually([&] { return badDirectory().failure.empty(); })) << badDirectory().failure;
  ASSERT_NO_FATAL_FAILURE(warm(agent, dataset));
  ASSERT_NO_FATAL_FAILURE(readAll());
}

std::string nameOf(const testing::TestParamInfo<DiskCall>& call) {
  constexpr std::array<const char*, kDiskOperations> kNames = {
      "OpenToRead", "Read",   "OpenToWrite", "Write", "Sync",          "Truncate", "Info", "Rename",
      "Link",       "Unlink", "MakeFolder",  "Chmod", "SyncDirectory", "List",     "Space"};
  return kNames[static_cast<std::size_t>(call.param)];
}

std::vector<DiskCall> allCalls() {
  std::vector<DiskCall> all;
  for (std::size_t i = 0; i < kDiskOperations; ++i) all.push_back(static_cast<DiskCall>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Calls, HangingDisk, testing::ValuesIn(allCalls()), nameOf);

TEST_F(HangingDisk, IsNamedWithTheFilesThatWait) {
  faults->hang({DiskCall::kRead, DiskCall::kOpenToRead});
  ASSERT_NO_FATAL_FAILURE(readAll());
  EXPECT_NE(badDirectory().failure.find("does not answer"), std::string::npos);
  EXPECT_NE(badDirectory().waitingFiles, 0u) << "reads of them hang";
}

}  // namespace
}  // namespace hearth
