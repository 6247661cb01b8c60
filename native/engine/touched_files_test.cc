// Files of a directory whose time of change moved, and nothing says why.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

struct TouchedFilesTest : testing::Test {
  void SetUp() override {
    origin.add("model", 3 * kChunkBytes);
    dataset = agent.add(origin);
    file = origin.folder() + "/model";
  }
  [[nodiscard]] auto read(std::uint32_t chunk) {
    return agent.await(agent.engine().contents().read(dataset, filesOf(*dataset->manifest).front(),
                                                      chunk * kChunkBytes, kChunkBytes));
  }
  void expectRight(std::uint32_t chunk) {
    const auto got = read(chunk);
    ASSERT_TRUE(got.ok()) << got.error().message;
    const std::string bytes = origin.bytesOf("model").substr(chunk * kChunkBytes, kChunkBytes);
    ASSERT_EQ(got->size(), bytes.size());
    EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0);
  }
  void keepFirstChunk() {
    expectRight(0);
    const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
    ASSERT_TRUE(eventually(
        [&] { return agent.engine().commons().cache->residentBytes(key) >= kChunkBytes; }));
  }
  // Until the time of change is another: the clock of the file system ticks slowly.
  void untilTouched(const std::function<void()>& change) const {
    struct stat before {
    }, now{};
    ASSERT_EQ(stat(file.c_str(), &before), 0);
    do {
      change();
      ASSERT_EQ(stat(file.c_str(), &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  }
  // As a backup by hard links leaves it that is deleted later.
  void linkAndUnlink() const {
    untilTouched([this] {
      std::filesystem::create_hard_link(file, file + ".copy");
      std::filesystem::remove(file + ".copy");
    });
  }
  void writeByStealth(std::uint64_t offset) const {
    struct stat info {};
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    untilTouched([&] {
      std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(offset));
      out << "another state";
      out.close();
      const timespec times[] = {info.st_atim, info.st_mtim};
      ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    });
  }

  Origin origin;
  Agent agent{"agent"};
  std::shared_ptr<Dataset> dataset;
  std::string file;
};

TEST_F(TouchedFilesTest, AreReadWhereTheBytesThatAreHereAreTheirs) {
  keepFirstChunk();
  linkAndUnlink();
  expectRight(1);
  linkAndUnlink();
  expectRight(2);
  expectRight(0);
}

TEST_F(TouchedFilesTest, AreReadWhereNothingIsHere) {
  linkAndUnlink();
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) expectRight(chunk);
}

TEST_F(TouchedFilesTest, HaveChangedWhereTheBytesThatAreHereAreOthers) {
  keepFirstChunk();
  writeByStealth(kChunkBytes / 2);
  EXPECT_EQ(read(1).code(), ErrorCode::kOriginChanged);
  linkAndUnlink();
  EXPECT_EQ(read(2).code(), ErrorCode::kOriginChanged);
}

TEST_F(TouchedFilesTest, AreComparedAgainAfterEachMove) {
  linkAndUnlink();
  keepFirstChunk();
  writeByStealth(10);
  EXPECT_EQ(read(1).code(), ErrorCode::kOriginChanged);
}

}  // namespace
}  // namespace hearth::testing_cluster
