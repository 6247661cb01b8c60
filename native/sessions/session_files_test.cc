#include "sessions/session_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace hearth {
namespace {

class SessionFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-sessions-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    volume_ = volumeFolder(folder_, "02");
    ASSERT_TRUE(makeVolumeFolder(volume_).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_, volume_;
};

TEST_F(SessionFilesTest, NamesAreReadAsTheyWereWritten) {
  const SessionName session{tree::InodeId{0x10000000002},
                            tree::SessionId{0xffffffffffffffff},
                            {tree::SessionId{3}, 0xffffffff}};
  EXPECT_EQ(textOf(session), "10000000002-ffffffffffffffff-3-ffffffff");
  EXPECT_EQ(parseSessionName(textOf(session)), session);
  SealedName sealed{tree::SessionId{0x10000000007}, 12, {}};
  sealed.key.bytes.fill(0xab);
  EXPECT_EQ(parseSealedName(textOf(sealed)), sealed);
  sealed.synced = true;
  EXPECT_EQ(parseSealedName(textOf(sealed)), sealed);
}

TEST_F(SessionFilesTest, OtherNamesAreLeftAlone) {
  for (const char* const name :
       {"", "-", "1", "1-2-3", "1-2-3-", "1-2-3-4-", "1-2-3-4-5", "01-2-3-4", "1-2-3-100000000",
        "1-2-3-4 ", "x-2-3-4", "A-2-3-4", "1-2-3-11111111111111111", "sealed", ".tmp-1-2-3-4"}) {
    EXPECT_EQ(parseSessionName(name), std::nullopt) << name;
    std::ofstream(volume_ + "/" + (*name == 0 ? "empty" : name)) << "x";
  }
  EXPECT_EQ(parseSealedName("1-2-" + std::string(63, 'a')), std::nullopt);
  EXPECT_EQ(parseSealedName("1-2-" + std::string(64, 'A')), std::nullopt);
  EXPECT_EQ(parseSealedName("1-2-" + std::string(64, 'a') + "-syncedx"), std::nullopt);
  std::ofstream(volume_ + "/1-2-3-4") << "x";
  removeAside(volume_);
  EXPECT_FALSE(std::filesystem::exists(volume_ + "/.tmp-1-2-3-4"));
  const Result<FoundFiles> found = findFiles(volume_);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->sessions.size(), 1u);
  EXPECT_EQ(textOf(found->sessions.front()), "1-2-3-4");
  EXPECT_TRUE(found->sealed.empty());
}

TEST_F(SessionFilesTest, AFolderThatIsNotThereHasNoFiles) {
  const Result<FoundFiles> found = findFiles(folder_ + "/volumes/none");
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->sessions.empty());
}

TEST_F(SessionFilesTest, AStartOfTheMachineIsNoted) {
  EXPECT_FALSE(*ranSince(volume_));
  ASSERT_TRUE(noteRun(volume_).ok());
  EXPECT_TRUE(*ranSince(volume_));
  std::ofstream(volume_ + "/boot") << "another\n";
  EXPECT_FALSE(*ranSince(volume_));
  EXPECT_FALSE(noteRun(folder_ + "/none").ok());
}

TEST_F(SessionFilesTest, DescriptorsAndMappingsForWritingAreSeen) {
  const std::string path = volume_ + "/file";
  const Result<OwnedFd> file = makeSessionFile(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(noWriterLeft(file->get()).ok());
  OwnedFd writer(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ftruncate(writer.get(), 4096), 0);
  EXPECT_EQ(noWriterLeft(file->get()).code(), ErrorCode::kConflict);
  void* const mapped = ::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, writer.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  writer.reset();
  EXPECT_EQ(noWriterLeft(file->get()).code(), ErrorCode::kConflict);
  ::munmap(mapped, 4096);
  EXPECT_TRUE(noWriterLeft(file->get()).ok());
}

TEST_F(SessionFilesTest, ACopyHasTheBytesAndKeepsThem) {
  const std::string from = volume_ + "/from", to = volume_ + "/to";
  std::ofstream(from) << std::string(100'000, 'a') << "tail";
  const Result<OwnedFd> source = openSessionFile(from);
  ASSERT_TRUE(source.ok());
  Progress progress;
  ASSERT_TRUE(copySessionFile(to, source->get(), 100'000, progress).ok());
  EXPECT_EQ(std::filesystem::file_size(to), 100'000u);
  ASSERT_TRUE(setTimes(to, std::nullopt, -1'500'000'000).ok());
  const Result<OwnedFd> copy = openSessionFile(to);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(markOf(copy->get())->modifiedNs, -1'500'000'000);
  EXPECT_EQ(cutSessionFile(to, 10), 0);
  EXPECT_EQ(allocateIn(to, 0, 0, 50), 0);
  EXPECT_EQ(markOf(copy->get())->size, 50u);
  EXPECT_EQ(std::filesystem::file_size(from), 100'004u);
  EXPECT_EQ(cutSessionFile(to, UINT64_MAX), EFBIG);
  EXPECT_EQ(copySessionFile(to, source->get(), 200'000, progress).ok(), false);
}

}  // namespace
}  // namespace hearth
