#include "blocks/block_transfers.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/owned_fd.h"
#include "base/testing/eventually.h"

namespace hearth {
namespace {

using Direction = BlockTransfers::Direction;
using testing::HasSubstr;

constexpr std::size_t kBlockBytes = 3 * 4096;
constexpr std::chrono::milliseconds kLong{60'000};

class BlockTransfersTest : public testing::TestWithParam<bool> {
 protected:
  BlockTransfersTest() {
    std::string pattern = testing::TempDir() + "hearth-blocks-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    memory_ = static_cast<std::byte*>(std::aligned_alloc(4096, kBlocks * kBlockBytes));
  }
  ~BlockTransfersTest() override {
    std::free(memory_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static std::unique_ptr<BlockTransfers> open(unsigned threads) {
    auto opened = BlockTransfers::open({.threads = threads, .direct = GetParam(), .device = {}});
    EXPECT_TRUE(opened.ok());
    return std::move(*opened);
  }
  std::string create(const std::string& name, std::size_t bytes = kBlockBytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary).close();
    std::filesystem::resize_file(path, bytes);
    return path;
  }
  std::byte* block(std::size_t i) const { return memory_ + i * kBlockBytes; }
  void fill(std::size_t i, int seed) const {
    for (std::size_t j = 0; j < kBlockBytes; ++j) block(i)[j] = std::byte(j * 7 + j / 256 + seed);
  }
  bool holds(std::size_t i, int seed) const {
    for (std::size_t j = 0; j < kBlockBytes; ++j) {
      if (block(i)[j] != std::byte(j * 7 + j / 256 + seed)) return false;
    }
    return true;
  }

  static constexpr std::size_t kBlocks = 8;
  std::string folder_;
  std::byte* memory_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Paths, BlockTransfersTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Direct" : "PageCache"; });

TEST_P(BlockTransfersTest, LoadsWhatWasDumped) {
  const auto opened = open(4);
  BlockTransfers& transfers = *opened;
  std::vector<BlockTransfer> all;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    fill(i, static_cast<int>(i));
    all.push_back({create(std::to_string(i)), 0, block(i), kBlockBytes});
  }
  const auto dumped = transfers.wait(transfers.begin(Direction::kDump, all), kLong);
  ASSERT_TRUE(dumped.ok());
  EXPECT_TRUE(dumped->empty());
  std::memset(memory_, 0, kBlocks * kBlockBytes);
  const auto loaded = transfers.wait(transfers.begin(Direction::kLoad, all), kLong);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->empty());
  for (std::size_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(i, static_cast<int>(i))) << i;
}

TEST_P(BlockTransfersTest, MovesMisalignedParts) {
  const auto opened = open(1);
  BlockTransfers& transfers = *opened;
  const std::string path = create("odd");
  fill(0, 5);
  const std::vector<BlockTransfer> parts{{path, 0, block(0), 1001},
                                         {path, 1001, block(0) + 1001, kBlockBytes - 1001}};
  ASSERT_TRUE(transfers.wait(transfers.begin(Direction::kDump, parts), kLong)->empty());
  const auto loaded =
      transfers.wait(transfers.begin(Direction::kLoad, {{path, 0, block(1), kBlockBytes}}), kLong);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->empty());
  EXPECT_TRUE(holds(1, 5));
}

TEST_P(BlockTransfersTest, AFailureIsThatOfItsBlockAlone) {
  const auto opened = open(2);
  BlockTransfers& transfers = *opened;
  fill(0, 1);
  const std::vector<BlockTransfer> all{
      {create("good"), 0, block(0), kBlockBytes},
      {folder_ + "/absent", 0, block(1), kBlockBytes},
      {create("short", 4096), 0, block(2), kBlockBytes},
  };
  const auto failures = transfers.wait(transfers.begin(Direction::kDump, all), kLong);
  ASSERT_TRUE(failures.ok());
  ASSERT_EQ(failures->size(), 2U);
  EXPECT_EQ((*failures)[0].transfer, 1U);
  EXPECT_EQ((*failures)[0].error.code, ErrorCode::kNotFound);
  EXPECT_EQ((*failures)[1].transfer, 2U);
  EXPECT_EQ((*failures)[1].error.code, ErrorCode::kCorrupt);
  EXPECT_FALSE(std::filesystem::exists(all[1].path)) << "a dump never creates";
  const auto loaded = transfers.wait(
      transfers.begin(Direction::kLoad, {{all[0].path, 0, block(3), kBlockBytes}}), kLong);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(holds(3, 1));
}

TEST_P(BlockTransfersTest, AWaitEndsWhenTheStorageHangs) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto opened = open(1);
  BlockTransfers& transfers = *opened;
  // The reader of a FIFO waits for its writer. A size that is not of pages keeps O_DIRECT away.
  const auto batch = transfers.begin(Direction::kLoad, {{pipe, 0, block(0), 100}});
  const auto early = transfers.wait(batch, std::chrono::milliseconds(1));
  EXPECT_EQ(early.code(), ErrorCode::kDeadlineExceeded);
  const Result<bool> done = transfers.isDone(batch);
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(*done);
  std::ofstream(pipe).close();
  const auto late = transfers.wait(batch, kLong);
  ASSERT_TRUE(late.ok());
  ASSERT_EQ(late->size(), 1U);
  EXPECT_EQ((*late)[0].error.code, ErrorCode::kCorrupt);
}

TEST_P(BlockTransfersTest, ACancelledBatchEndsWithTheTransfersThatHaveBegun) {
  const auto opened = open(1);
  BlockTransfers& transfers = *opened;
  const std::string held = create("held"), path = create("whole");
  // Who opens a file under a lease waits for its holder, which the kernel tells.
  const OwnedFd lease(::open(held.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(fcntl(lease.get(), F_SETSIG, SIGURG), 0);
  ASSERT_EQ(fcntl(lease.get(), F_SETLEASE, F_WRLCK), 0) << std::strerror(errno);
  const auto hanging =
      transfers.begin(Direction::kLoad, {{held, 0, block(0), 100}, {path, 0, block(1), 100}});
  const auto other = transfers.begin(Direction::kLoad, {{path, 0, block(2), kBlockBytes}});
  ASSERT_TRUE(eventually([&] { return fcntl(lease.get(), F_GETLEASE) != F_WRLCK; }));
  ASSERT_TRUE(transfers.cancel(hanging).ok());
  EXPECT_EQ(transfers.wait(hanging, std::chrono::milliseconds(1)).code(),
            ErrorCode::kDeadlineExceeded)
      << "one has begun";
  ASSERT_EQ(fcntl(lease.get(), F_SETLEASE, F_UNLCK), 0);
  const auto ended = transfers.wait(hanging, kLong);
  ASSERT_TRUE(ended.ok());
  ASSERT_EQ(ended->size(), 1U);
  EXPECT_EQ(ended->front().error.code, ErrorCode::kCancelled);
  EXPECT_TRUE(transfers.wait(other, kLong)->empty()) << "another batch";
  EXPECT_EQ(transfers.cancel(hanging).code(), ErrorCode::kNotFound);
}

TEST_P(BlockTransfersTest, HasNoGpuUnlessItGotOne) {
  const auto transfers = open(1);
  const BlockTransfer onDevice{create("block"), 0, block(0), kBlockBytes, true};
  const auto failures = transfers->wait(transfers->begin(Direction::kLoad, {onDevice}), kLong);
  ASSERT_EQ(failures->size(), 1U);
  EXPECT_EQ(failures->front().error.code, ErrorCode::kUnsupported);
  EXPECT_EQ(transfers->enroll(4096, 4096).code(), ErrorCode::kUnsupported);
}

TEST_P(BlockTransfersTest, AnAnswerIsGivenOnce) {
  const auto opened = open(1);
  BlockTransfers& transfers = *opened;
  const auto batch = transfers.begin(Direction::kLoad, {});
  EXPECT_TRUE(*transfers.isDone(batch));
  EXPECT_TRUE(transfers.wait(batch, kLong)->empty());
  EXPECT_EQ(transfers.wait(batch, kLong).code(), ErrorCode::kNotFound);
  EXPECT_EQ(transfers.isDone(batch).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hearth
