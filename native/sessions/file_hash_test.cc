#include "sessions/file_hash.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "base/crc32c.h"
#include "base/generated/constants.h"
#include "base/owned_fd.h"
#include "sessions/published_files.h"

namespace hearth {
namespace {

class FileHashTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto reactor = Reactor::create();
    ASSERT_TRUE(reactor.ok());
    reactor_ = std::move(*reactor);
    std::mt19937_64 random(1);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    write(file_);
  }
  void write(const OwnedFd& to) {
    ASSERT_EQ(::pwrite(to.get(), bytes_.data(), bytes_.size(), 0),
              static_cast<ssize_t>(bytes_.size()));
  }
  Result<FileHash> hash(std::uint64_t length) {
    return reactor_->runUntilComplete(hasher_.hash(*reactor_, file_.get(), length));
  }

  std::unique_ptr<Reactor> reactor_;
  FileHasher hasher_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(3 * kChunkBytes + 70'001);
  OwnedFd file_{memfd_create("file", MFD_CLOEXEC)};
};

TEST_F(FileHashTest, SumsAreThoseOfTheBytes) {
  const Result<FileHash> all = hash(bytes_.size());
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->blockChecksums, crc32cOfBlocks(bytes_, kBlockBytes));
  EXPECT_EQ(all->chunks.size(), 4u);
  EXPECT_EQ(*all, *hash(bytes_.size()));
  const Result<FileHash> none = hash(0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->blockChecksums.empty());
}

TEST_F(FileHashTest, EachChangeShowsInItsChunk) {
  const FileHash before = *hash(bytes_.size());
  for (const std::size_t at : {std::size_t{0}, std::size_t{kChunkBytes - 1}, bytes_.size() - 1}) {
    bytes_[at] ^= std::byte{1};
    write(file_);
    const FileHash after = *hash(bytes_.size());
    for (std::size_t chunk = 0; chunk < 4; ++chunk)
      EXPECT_EQ(after.chunks[chunk] == before.chunks[chunk], chunk != at / kChunkBytes);
    bytes_[at] ^= std::byte{1};
  }
}

TEST_F(FileHashTest, AFileThatIsCutMeanwhileIsAConflict) {
  EXPECT_EQ(hash(bytes_.size() + 1).code(), ErrorCode::kConflict);
}

TEST_F(FileHashTest, PublishedBytesAreGivenOnlyAsTheyWere) {
  const FileHash sums = *hash(bytes_.size());
  const PublishedFile file{OwnedFd(::dup(file_.get())), bytes_.size(), sums.blockChecksums};
  const auto reads = [&](std::uint64_t offset, std::size_t length) {
    std::vector<std::byte> into(length);
    const Status read = readPublished(file, offset, into);
    if (read.ok())
      EXPECT_TRUE(std::equal(into.begin(), into.end(),
                             bytes_.begin() + static_cast<std::ptrdiff_t>(offset)));
    return read.code();
  };
  EXPECT_EQ(reads(0, kChunkBytes), ErrorCode::kOk);
  EXPECT_EQ(reads(kBlockBytes, 100), ErrorCode::kOk);
  EXPECT_EQ(reads(3 * kChunkBytes, 70'001), ErrorCode::kOk);
  EXPECT_EQ(reads(3 * kChunkBytes, 70'000), ErrorCode::kOk);
  std::vector<std::byte> changed = bytes_;
  changed[kBlockBytes + 500] ^= std::byte{1};
  std::swap(changed, bytes_);
  write(file_);
  std::swap(changed, bytes_);
  EXPECT_EQ(reads(0, kBlockBytes), ErrorCode::kOk);
  // The change lies behind what was asked for, and in its block.
  EXPECT_EQ(reads(kBlockBytes, 100), ErrorCode::kTryElsewhere);
  ASSERT_EQ(::ftruncate(file_.get(), 1000), 0);
  EXPECT_EQ(reads(0, kBlockBytes), ErrorCode::kTryElsewhere);
}

}  // namespace
}  // namespace hearth
