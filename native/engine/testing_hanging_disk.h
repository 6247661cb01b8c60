// Two agents, one of which has two disks of which one hangs when a test says so. For tests.
#pragma once

#include <array>
#include <future>

#include "engine/testing_cluster.h"
#include "engine/testing_reader.h"
#include "fetch/memory_tier.h"
#include "files/testing/faulty_file_system.h"

namespace hearth::testing_cluster {

// Bytes of the agent are on its disks alone from now on.
inline void forgetMemory(Agent& agent) {
  struct Clear {
    static Task<bool> run(Shard& shard) {
      co_await shard.reactor->enter();
      shard.memory->clear();
      co_return shard.memory->bytes() == 0;
    }
  };
  for (const auto& shard : agent.engine().commons().shards)
    EXPECT_TRUE(runOn(*shard->reactor, Clear::run(*shard)));
}

class HangingDiskTest : public testing::TestWithParam<testing_support::DiskCall> {
 protected:
  static constexpr std::uint64_t kBudget = std::uint64_t{1} << 32;

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
    forgetMemory(agent);
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
  [[nodiscard]] std::size_t filesOn(const std::string& disk) {
    std::size_t count = 0;
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      const auto file = cache().find(dataset->manifest->entry(entry).key);
      count += file != nullptr && file->path().starts_with(disk) ? 1 : 0;
    }
    return count;
  }
  // Opens and reads all files at once, as many programs would. The slowest open or read.
  Clock::duration readAll() {
    DatasetSource source(*agent.engine().commons().mounting, dataset, "test", true);
    std::vector<std::future<Clock::duration>> readers;
    for (std::size_t file = 0; file < known.names().size(); ++file) {
      readers.push_back(std::async(std::launch::async, [this, &source, file] {
        Stopwatch watch;
        expectFile(source, known, file, 1u << 20, &watch);
        const std::uint32_t entry = *source.manifest().lookUp(known.names()[file]);
        const bool passed = watch.time([&] {
          const auto opened = source.openFile(entry);
          return opened.ok() && (*opened)->backing().code() != ErrorCode::kInternal;
        });
        EXPECT_TRUE(passed) << known.names()[file];
        return watch.longest();
      }));
    }
    Clock::duration longest{};
    for (auto& each : readers) longest = std::max(longest, each.get());
    return longest;
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
  const std::shared_ptr<testing_support::DiskFaults> faults =
      std::make_shared<testing_support::DiskFaults>(bad);
  Origin known, fresh;
  Agent agent{"agent", [this](EngineOptions& options) {
                options.cacheDirectories = {{bad, kBudget, 0}, {good, kBudget, 0}};
                options.files = [faults = faults](Reactor& reactor) {
                  return std::make_unique<testing_support::FaultyFileSystem>(reactor, faults);
                };
              }};
  Agent other{"other"};
  std::shared_ptr<Dataset> dataset, more;
  std::uint64_t fromOrigin = 0;
  int jobs = 0;
};

inline std::string nameOfCall(const testing::TestParamInfo<testing_support::DiskCall>& call) {
  constexpr std::array<const char*, kDiskOperations> kNames = {
      "OpenToRead", "Read",   "OpenToWrite", "Write", "Sync",          "Truncate", "Info", "Rename",
      "Link",       "Unlink", "MakeFolder",  "Chmod", "SyncDirectory", "List",     "Space"};
  return kNames[static_cast<std::size_t>(call.param)];
}

inline std::vector<testing_support::DiskCall> allDiskCalls() {
  std::vector<testing_support::DiskCall> all;
  for (std::size_t i = 0; i < kDiskOperations; ++i)
    all.push_back(static_cast<testing_support::DiskCall>(i));
  return all;
}

}  // namespace hearth::testing_cluster
