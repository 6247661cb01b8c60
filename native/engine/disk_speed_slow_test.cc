// Several disks work in parallel for one dataset. Measures time, as root.
#include <algorithm>
#include <cstdio>

#include "engine/testing_cluster.h"
#include "engine/testing_limited_disk.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;
using testing_support::LimitedDisk;
using testing_support::WriteLimit;

constexpr std::uint64_t kBytesPerSecond = 200'000'000;
constexpr std::uint64_t kDiskBytes = std::uint64_t{3} << 29;
constexpr int kPasses = 5;

// On tmpfs: what is measured waits for no disk of the machine.
struct FolderInMemory {
  FolderInMemory() {
    char name[] = "/dev/shm/hearth-disks-XXXXXX";
    if (mkdtemp(name) != nullptr) path = name;
  }
  ~FolderInMemory() { std::filesystem::remove_all(path); }
  std::string path;
};

// Of an empty cache, whose files are gone afterwards.
double secondsToWarm(const Origin& origin, const std::vector<std::string>& directories) {
  double seconds = 0;
  {
    Agent agent("one", [&](EngineOptions& options) {
      options.cacheDirectories.clear();
      for (const std::string& path : directories)
        options.cacheDirectories.push_back({path, kDiskBytes * 9 / 10, 0});
    });
    const auto dataset = agent.add(origin);
    const Clock::time_point began = Clock::now();
    agent.beginWarm(dataset, Verification::kNone);
    EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    seconds = std::chrono::duration<double>(Clock::now() - began).count();
  }
  for (const std::string& path : directories) std::filesystem::remove_all(path);
  return seconds;
}

TEST(DiskSpeed, TwoDisksTakeADatasetNearlyTwiceAsFast) {
  if (getuid() != 0) GTEST_SKIP() << "mounts loop devices, as root";
  const FolderInMemory folder;
  // The origin is there as well: else the kernel writes it to the machine's disk meanwhile.
  setenv("TMPDIR", folder.path.c_str(), 1);
  LimitedDisk one(folder.path, "one", kDiskBytes), first(folder.path, "first", kDiskBytes),
      second(folder.path, "second", kDiskBytes);
  if (!one.mounted() || !first.mounted() || !second.mounted()) GTEST_SKIP() << "no loop devices";
  WriteLimit limit;
  for (LimitedDisk* const disk : {&one, &first, &second}) {
    if (!limit.set(*disk, kBytesPerSecond)) GTEST_SKIP() << "no cgroup holds disks back";
  }
  Origin origin;
  for (int i = 0; i < 16; ++i) origin.add("shard" + std::to_string(i), 64u << 20);
  std::vector<double> alone, both;
  // By turns, and the fastest of each counts: other work of the machine holds passes up, and
  // nothing lets a disk go faster than its limit.
  for (int pass = 0; pass < kPasses; ++pass) {
    alone.push_back(secondsToWarm(origin, {one.path()}));
    one.settle();
    both.push_back(secondsToWarm(origin, {first.path(), second.path()}));
    first.settle();
    second.settle();
    std::printf("one disk %.2f s, two disks %.2f s\n", alone.back(), both.back());
  }
  const double fastestAlone = *std::ranges::min_element(alone);
  const double times = fastestAlone / *std::ranges::min_element(both);
  std::printf("two disks are %.2f times as fast as one\n", times);
  EXPECT_GT(fastestAlone, static_cast<double>(origin.bytes()) / kBytesPerSecond * 0.9)
      << "not held back";
  EXPECT_GE(times, 1.8);
}

}  // namespace
}  // namespace hearth
