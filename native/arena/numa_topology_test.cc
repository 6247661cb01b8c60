#include "arena/numa_topology.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "arena/arena.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

TEST(NumaTopology, ReadsTheKernelsLists) {
  EXPECT_EQ(parseNodeList("0"), (std::vector<int>{0}));
  EXPECT_EQ(parseNodeList("0-2,8"), (std::vector<int>{0, 1, 2, 8}));
  EXPECT_EQ(parseNodeList("3,1,1-2"), (std::vector<int>{1, 2, 3}));
  for (const char* bad : {"", "a", "1-", "-1", "2-1", "1;2", "1,,2", "99999", "0-99999", "1 2"})
    EXPECT_TRUE(parseNodeList(bad).empty()) << bad;
}

TEST(NumaTopology, HasTheNodesThatWeMayUse) {
  std::string root = (fs::temp_directory_path() / "hearth-numa-test-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  EXPECT_EQ(KernelNumaTopology(root).nodes(), (std::vector<int>{0})) << "a kernel without NUMA";
  fs::create_directories(root + "/sys/devices/system/node");
  fs::create_directories(root + "/proc/self");
  std::ofstream(root + "/sys/devices/system/node/has_memory") << "0-3\n";
  std::ofstream(root + "/proc/self/status") << "Name:\tx\nMems_allowed_list:\t1,3-7\n";
  EXPECT_EQ(KernelNumaTopology(root).nodes(), (std::vector<int>{1, 3}));
  fs::remove_all(root);
}

TEST(NumaTopology, OfThisMachineTakesMemoryOfItsNodes) {
  const KernelNumaTopology topology;
  const int node = topology.nodes().front();
  const auto file = makeArenaFile(ArenaPageKind::kSmall, kChunkBytes);
  ASSERT_TRUE(file.ok());
  const Status preferred = topology.prefer(file->get(), 0, kChunkBytes, node);
  EXPECT_TRUE(preferred.ok()) << preferred.error().message;
  EXPECT_TRUE(touchMemory(file->get(), 0, kChunkBytes).ok());
  EXPECT_FALSE(topology.prefer(file->get(), 0, kChunkBytes, 1000).ok());
  EXPECT_FALSE(topology.prefer(file->get(), 0, kChunkBytes, -1).ok());
}

}  // namespace
}  // namespace hearth
