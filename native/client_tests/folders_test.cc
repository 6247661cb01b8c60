// Entries of folders, and advice for what is below them.
#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kBytes = kChunkBytes + 99;

struct ListTest : ClientTest {
  ListTest() { useToken(capabilityOf({"llm"})); }
  // `files`: in the folder `many`.
  void serve(int files) {
    for (int i = 0; i < files; ++i) {
      names.push_back(std::to_string(10'000 + i));
      origin.add("many/" + names.back(), 1);
    }
    origin.add("sub/a", kBytes);
    origin.add("sub/b", kBytes);
    agent.engine().nameDatasets({{"llm", agent.add(origin)}});
    open(addressOf(agent));
  }
  // At most so many entries; the status' code.
  unsigned list(const std::string& path, const char* after, std::uint32_t most) {
    entries.assign(most, {});
    EXPECT_EQ(xfer_gd2fs_list(ctx, this, path.c_str(), after, entries.data(), most), 0);
    const xfer_gd2fs_completion done = next();
    EXPECT_EQ(done.id, this);
    entries.resize(done.value);
    return XFER_GD2FS_STATUS_CODE(done.status);
  }

  static constexpr int kFiles = 2100;  // an agent gives 2048 at once
  Origin origin;
  std::vector<std::string> names;
  Agent agent{"agent"};
  std::vector<xfer_gd2fs_dirent> entries;
};

TEST_F(ListTest, EntriesComeInOrderAndInPages) {
  serve(kFiles);
  ASSERT_EQ(list("/dataset/llm", nullptr, 10), 0u);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_STREQ(entries[0].name, "many");
  EXPECT_TRUE(S_ISDIR(entries[0].mode));
  EXPECT_EQ(entries[0].size, names.size());
  ASSERT_EQ(list("/dataset/llm/sub/", "", 10), 0u);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_STREQ(entries[1].name, "b");
  EXPECT_TRUE(S_ISREG(entries[1].mode));
  EXPECT_EQ(entries[1].size, kBytes);
  ASSERT_EQ(list("/dataset/llm/many", nullptr, kFiles + 1), 0u);
  ASSERT_EQ(entries.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(entries[i].name, names[i]);
  ASSERT_EQ(list("/dataset/llm/many", names[50].c_str(), 5), 0u);
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].name, names[51]);
  ASSERT_EQ(list("/dataset/llm/many", names.back().c_str(), 5), 0u);
  EXPECT_TRUE(entries.empty());
}

TEST_F(ListTest, OtherPathsAreRefused) {
  serve(1);
  EXPECT_EQ(list("/dataset/llm/sub/a", nullptr, 1), static_cast<unsigned>(EINVAL));
  EXPECT_EQ(list("/dataset/llm/none", nullptr, 1), static_cast<unsigned>(ENOENT));
  EXPECT_EQ(list("/dataset/other", nullptr, 1), static_cast<unsigned>(EACCES));
  xfer_gd2fs_dirent one{};
  const std::string longName(256, 'a');
  const char* const folder = "/dataset/llm";
  EXPECT_EQ(xfer_gd2fs_list(ctx, nullptr, folder, longName.c_str(), &one, 1), -ENAMETOOLONG);
  EXPECT_EQ(xfer_gd2fs_list(ctx, nullptr, folder, nullptr, nullptr, 1), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_list(ctx, nullptr, folder, nullptr, &one, 0), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_list(ctx, nullptr, nullptr, nullptr, &one, 1), -EINVAL);
}

struct AdviseTest : ClientTest {
  AdviseTest() {
    origin.add("sub/a", kBytes);
    origin.add("sub/b", kBytes);
    origin.add("more", kBytes);
    Capability capability = capabilityOf({"llm"});
    capability.rights |= static_cast<std::uint32_t>(CapabilityRight::kAdvise) |
                         static_cast<std::uint32_t>(CapabilityRight::kAdviseCluster);
    useToken(capability);
    connect({&agent, &other});
    for (Agent* const each : {&agent, &other}) {
      datasets.push_back(each->add(origin));
      each->engine().nameDatasets({{"llm", datasets.back()}});
    }
    open(addressOf(agent));
  }
  unsigned advise(const char* path, int advice, int scope) {
    EXPECT_EQ(xfer_gd2fs_advise(ctx, nullptr, path, advice, scope), 0);
    return XFER_GD2FS_STATUS_CODE(next().status);
  }
  // On the first agent, or the second.
  std::uint64_t resident(std::size_t which) {
    Agent& of = which == 0 ? agent : other;
    return of.await(of.engine().contents().residency(datasets[which])).bytesResident;
  }

  Origin origin;
  Agent agent{"agent"}, other{"other"};
  std::vector<std::shared_ptr<Dataset>> datasets;
};

TEST_F(AdviseTest, BringsFilesToTheNodeAndLetsGoOfThem) {
  EXPECT_EQ(advise("/dataset/llm/sub", XFER_GD2FS_WILLNEED, XFER_GD2FS_NODE), 0u);
  EXPECT_TRUE(eventually([&] { return resident(0) == 2 * kBytes; }));
  EXPECT_EQ(resident(1), 0u);
  EXPECT_EQ(advise("/dataset/llm/sub/a", XFER_GD2FS_DONTNEED, XFER_GD2FS_NODE), 0u);
  EXPECT_TRUE(eventually([&] { return resident(0) == kBytes; }));
}

TEST_F(AdviseTest, ForTheClusterReachesAllNodes) {
  for (const char* const path : {"/dataset/llm/sub/a", "/dataset/llm/sub/b"})
    EXPECT_EQ(advise(path, XFER_GD2FS_WILLNEED, XFER_GD2FS_CLUSTER), 0u);
  EXPECT_TRUE(eventually([&] { return resident(0) + resident(1) >= 2 * kBytes; }));
  // Whole copies on both.
  other.beginWarm(datasets[1]);
  ASSERT_EQ(other.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(advise("/dataset/llm/sub", XFER_GD2FS_DONTNEED, XFER_GD2FS_CLUSTER), 0u);
  EXPECT_TRUE(eventually([&] { return resident(0) == 0 && resident(1) == kBytes; }));
}

TEST_F(AdviseTest, ForOneNodeAndForTheClusterAreTwoRights) {
  const auto reconnect = [&](CapabilityRight right) {
    Capability capability = capabilityOf({"llm"});
    capability.rights |= static_cast<std::uint32_t>(right);
    useToken(capability);
    xfer_gd2fs_close(std::exchange(ctx, nullptr));
    open(addressOf(agent));
  };
  const char* const path = "/dataset/llm/sub/a";
  reconnect(CapabilityRight::kAdvise);
  EXPECT_EQ(advise(path, XFER_GD2FS_DONTNEED, XFER_GD2FS_NODE), 0u);
  for (const int advice : {XFER_GD2FS_WILLNEED, XFER_GD2FS_DONTNEED})
    EXPECT_EQ(advise(path, advice, XFER_GD2FS_CLUSTER), static_cast<unsigned>(EACCES));
  reconnect(CapabilityRight::kAdviseCluster);
  EXPECT_EQ(advise(path, XFER_GD2FS_DONTNEED, XFER_GD2FS_CLUSTER), 0u);
  EXPECT_EQ(advise(path, XFER_GD2FS_DONTNEED, XFER_GD2FS_NODE), static_cast<unsigned>(EACCES));
}

TEST_F(AdviseTest, IsNotForANodeWhereTheProgramDoesNotRun) {
  Capability capability = capabilityOf({"llm"});
  capability.rights |= static_cast<std::uint32_t>(CapabilityRight::kAdvise);
  capability.nodes = {"other", "agent"};
  useToken(capability);
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  xfer_gd2fs_options given = options(addressOf(agent));
  given.timeout = 500;
  ctx = xfer_gd2fs_connect(&given);
  ASSERT_NE(ctx, nullptr);
  ASSERT_EQ(
      xfer_gd2fs_advise(ctx, nullptr, "/dataset/llm/sub", XFER_GD2FS_WILLNEED, XFER_GD2FS_NODE), 0);
  EXPECT_EQ(XFER_GD2FS_STATUS_CLASS(next().status), XFER_GD2FS_CLASS_CLUSTER);
  EXPECT_EQ(resident(0), 0u);
  // The library finds the program's own agent.
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  open(addressOf(agent) + "," + addressOf(other));
  EXPECT_EQ(advise("/dataset/llm/sub", XFER_GD2FS_WILLNEED, XFER_GD2FS_NODE), 0u);
  EXPECT_TRUE(eventually([&] { return resident(1) == 2 * kBytes; }));
  EXPECT_EQ(resident(0), 0u);
}

TEST_F(AdviseTest, NeedsItsRight) {
  useToken(capabilityOf({"llm"}));
  xfer_gd2fs_close(std::exchange(ctx, nullptr));
  open(addressOf(agent));
  EXPECT_EQ(advise("/dataset/llm/sub", XFER_GD2FS_WILLNEED, XFER_GD2FS_NODE),
            static_cast<unsigned>(EACCES));
  EXPECT_EQ(advise("/dataset/llm/sub", XFER_GD2FS_DONTNEED, XFER_GD2FS_CLUSTER),
            static_cast<unsigned>(EACCES));
  EXPECT_EQ(resident(0), 0u);
  EXPECT_EQ(xfer_gd2fs_advise(ctx, nullptr, "/dataset/llm", 2, XFER_GD2FS_NODE), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_advise(ctx, nullptr, "/dataset/llm", XFER_GD2FS_WILLNEED, -1), -EINVAL);
}

}  // namespace
}  // namespace hearth::testing_client
