// Files of volumes that programs write through libgd2fs.
#include <gtest/gtest.h>

#include "base/testing/eventually.h"
#include "client_tests/put_calls.h"
#include "client_tests/testing_volume.h"

namespace hearth::testing_client {
namespace {

struct WritesTest : ClientTest {
  WritesTest() { useToken(volumeCapability()); }
  void openAt(Agent& agent) {
    xfer_gd2fs_close(ctx);
    open(addressOf(agent));
  }
  // Completes later.
  int submit(const std::string& path, std::uint64_t offset, std::vector<char>& bytes) {
    xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr);
    const xfer_gd2fs_sge sge{bytes.data(), bytes.size(), iomem};
    return static_cast<int>(xfer_gd2fs_pwritev(ctx, this, path.c_str(), offset, &sge, 1, 0));
  }
  xfer_gd2fs_completion write(const std::string& path, std::uint64_t offset,
                              std::vector<char> bytes) {
    EXPECT_EQ(submit(path, offset, bytes), 0);
    return next();
  }
  // Closes the client in the middle of what it writes at the agent, or after its end.
  void goAway(Agent& agent) {
    xfer_gd2fs_completion done{};
    eventually([&] {
      return VolumeCluster::rangesOf(agent) != 0 || xfer_gd2fs_wait(ctx, &done, 1, 0) == 1;
    });
    xfer_gd2fs_close(std::exchange(ctx, nullptr));
    eventually([&] { return VolumeCluster::rangesOf(agent) == 0; });
    eventually([&] { return VolumeCluster::sessionsOf(agent) == 0; });
  }
  unsigned create(const std::string& path) {
    EXPECT_EQ(xfer_gd2fs_create(ctx, this, path.c_str(), 0, 0), 0);
    return XFER_GD2FS_STATUS_CODE(next().status);
  }
  void expectContent(Agent& agent, const std::string& path, const std::vector<char>& bytes) {
    openAt(agent);
    const xfer_gd2fs_completion done = read(path, 0, bytes.size() + 1);
    ASSERT_EQ(XFER_GD2FS_STATUS_CODE(done.status), 0u);
    ASSERT_EQ(done.value, bytes.size());
    EXPECT_EQ(std::memcmp(memory.data(), bytes.data(), bytes.size()), 0);
  }

  VolumeCluster cluster;
};

constexpr std::size_t kOdd = 2 * kChunkBytes + 4321;

TEST_F(WritesTest, AProgramInCWritesOnOneNodeAndReadsOnAnother) {
  const std::vector<char> bytes = pattern(256u << 20, 1);
  EXPECT_EQ(put_and_get(addressOf(cluster.b).c_str(), addressOf(cluster.c).c_str(),
                        "/volume/kv/folder/of/model",
                        reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                        (8u << 20) + 1),
            0);
}

TEST_F(WritesTest, EveryNodeReadsWhatAWriteThatHasEndedWrote) {
  for (Agent* const writer : cluster.all()) {
    const std::string path = "/volume/kv/of-" + writer->name();
    std::vector<char> bytes = pattern(kOdd, 2);
    for (unsigned version = 0; version < 3; ++version) {
      openAt(*writer);
      const std::vector<char> part = pattern(kBlockBytes + 9, 10 + version);
      const std::uint64_t offset = version * (kChunkBytes - 5);
      if (version == 0) {
        ASSERT_EQ(write(path, 0, bytes).value, bytes.size());
      }
      ASSERT_EQ(write(path, offset, part).value, part.size());
      bytes.resize(std::max<std::size_t>(bytes.size(), offset + part.size()));
      std::ranges::copy(part, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      for (Agent* const reader : cluster.all()) expectContent(*reader, path, bytes);
    }
  }
}

TEST_F(WritesTest, CreatesWhatIsMissingAndSucceedsForWhatIsThere) {
  openAt(cluster.b);
  EXPECT_EQ(create("/volume/kv/a/b/c"), 0u);
  EXPECT_EQ(create("/volume/kv/a/b/c"), 0u);
  EXPECT_EQ(create("/volume/kv/a/b/c/d"), static_cast<unsigned>(ENOENT)) << "c is a file";
  expectContent(cluster.c, "/volume/kv/a/b/c", {});
  EXPECT_EQ(codeOf("/volume/kv/a/b"), static_cast<unsigned>(EISDIR));
  EXPECT_EQ(codeOf("/volume/kv/missing"), static_cast<unsigned>(ENOENT));
  EXPECT_EQ(codeOf("/volume/kv/../kv/a"), static_cast<unsigned>(EINVAL));
}

TEST_F(WritesTest, ATokenGrantsEachRightOnItsOwn) {
  const std::string path = "/volume/kv/f";
  openAt(cluster.a);
  ASSERT_EQ(write(path, 0, pattern(10, 1)).value, 10u);
  useToken(capabilityOf({"volume:*"}));
  openAt(cluster.a);
  EXPECT_EQ(read(path, 0, 10).value, 10u);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(write(path, 0, pattern(10, 1)).status),
            static_cast<unsigned>(EACCES));
  EXPECT_EQ(create("/volume/kv/g"), static_cast<unsigned>(EACCES));
  // All datasets are no volume.
  useToken(capabilityOf({"*", "kv"}));
  openAt(cluster.a);
  EXPECT_EQ(codeOf(path), static_cast<unsigned>(EACCES));
  std::vector<char> bytes(1);
  EXPECT_EQ(submit("/dataset/llm/f", 0, bytes), -EROFS);
}

TEST_F(WritesTest, RemovesAFileWithTheRightToDelete) {
  const std::string path = "/volume/kv/folder/f";
  const auto removed = [&] {
    EXPECT_EQ(xfer_gd2fs_unlink(ctx, this, path.c_str()), 0);
    return XFER_GD2FS_STATUS_CODE(next().status);
  };
  openAt(cluster.b);
  ASSERT_EQ(write(path, 0, pattern(kOdd, 1)).value, kOdd);
  EXPECT_EQ(removed(), static_cast<unsigned>(EACCES)) << "it may write alone";
  useToken(volumeCapability(static_cast<std::uint32_t>(CapabilityRight::kDelete)));
  openAt(cluster.c);
  EXPECT_EQ(removed(), 0u);
  EXPECT_EQ(removed(), static_cast<unsigned>(ENOENT));
  EXPECT_EQ(codeOf(path), static_cast<unsigned>(ENOENT));
  EXPECT_EQ(xfer_gd2fs_unlink(ctx, this, "/dataset/llm/f"), -EROFS);
}

TEST_F(WritesTest, AClientThatGoesLeavesNothingOfWhatItHasNotFinished) {
  std::vector<char> bytes = pattern(64u << 20, 3);
  // Ends the client while bytes are on their way, wherever they are by then.
  for (int i = 0; i < 8; ++i) {
    const std::string path = "/volume/kv/new" + std::to_string(i);
    openAt(cluster.b);
    ASSERT_EQ(submit(path, 0, bytes), 0);
    goAway(cluster.b);
    openAt(cluster.c);
    const xfer_gd2fs_completion done = read(path, 0, bytes.size());
    const unsigned code = XFER_GD2FS_STATUS_CODE(done.status);
    if (code == 0) {
      EXPECT_EQ(std::memcmp(memory.data(), bytes.data(), bytes.size()), 0) << "it had finished";
    } else {
      EXPECT_EQ(code, static_cast<unsigned>(ENOENT));
    }
  }
}

TEST_F(WritesTest, WhatAClientDoesNotFinishChangesNothingOfAFile) {
  const std::string path = "/volume/kv/old";
  const std::vector<char> before = pattern(kOdd, 4);
  std::vector<char> bytes = pattern(64u << 20, 5);
  for (int i = 0; i < 8; ++i) {
    openAt(cluster.b);
    ASSERT_EQ(write(path + std::to_string(i), 0, before).value, before.size());
    ASSERT_EQ(submit(path + std::to_string(i), kChunkBytes / 2, bytes), 0);
    goAway(cluster.b);
    openAt(cluster.c);
    const xfer_gd2fs_completion done = read(path + std::to_string(i), 0, bytes.size());
    ASSERT_EQ(XFER_GD2FS_STATUS_CODE(done.status), 0u);
    if (done.value != before.size()) continue;  // it had finished
    EXPECT_EQ(std::memcmp(memory.data(), before.data(), before.size()), 0);
  }
}

TEST_F(WritesTest, ARangeBehindTheLimitOfTheVolumeIsRefused) {
  VolumeCluster small({.maxBytes = 100u << 20, .maxInodes = 100});
  openAt(small.b);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(write("/volume/kv/f", 1ull << 40, pattern(10, 1)).status),
            static_cast<unsigned>(ENOSPC));
}

TEST_F(WritesTest, AFileThatAProgramOfAnotherNodeWritesIsBusy) {
  const std::shared_ptr<Volume> volume = cluster.c.engine().volumes().find(VolumeCluster::kVolume);
  const OpenedVolumeFile opened =
      runOn(*volume->shard.reactor,
            volume->sessions.create({.place = {tree::kRootInode, "f"}, .opens = true}, false));
  ASSERT_EQ(opened.error, 0);
  openAt(cluster.b);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(write("/volume/kv/f", 0, pattern(8, 1)).status),
            static_cast<unsigned>(EBUSY));
}

}  // namespace
}  // namespace hearth::testing_client
