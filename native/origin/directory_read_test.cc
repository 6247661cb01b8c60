#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "origin/directory_calls.h"
#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

const std::string kFile = patternedObject(20'000'000);

class DirectoryReadTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    std::string pattern = std::filesystem::temp_directory_path() / "origin-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = folder + "/object";
    write(path, kFile);
  }
  void TearDown() override {
    OriginFixture::TearDown();
    std::filesystem::remove_all(folder);
  }
  static void write(const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  }
  static Location of(const std::string& file) {
    Location location;
    location.path = file;
    location.below = std::filesystem::path(file).parent_path();
    return location;
  }
  [[nodiscard]] OriginExpectation listed() const {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    const auto ns = [](const timespec& time) {
      return std::to_string(static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec);
    };
    std::string validator = "stat:" + ns(info.st_mtim) + ":" + ns(info.st_ctim);
    for (const std::uint64_t field : {std::uint64_t{info.st_ino}, std::uint64_t{info.st_nlink},
                                      std::uint64_t{info.st_mode & 07777},
                                      std::uint64_t{info.st_uid}, std::uint64_t{info.st_gid}}) {
      validator += ":" + std::to_string(field);
    }
    return {static_cast<std::uint64_t>(info.st_size), validator};
  }
  // Changes the file's status until its time of change is another: a clock of the file system that
  // ticks slowly gives two changes the same time.
  void untilChanged(const std::function<void()>& change) const {
    struct stat before {
    }, now{};
    ASSERT_EQ(stat(path.c_str(), &before), 0);
    do {
      change();
      ASSERT_EQ(stat(path.c_str(), &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  }
  std::string folder, path;
};

INSTANTIATE_TEST_SUITE_P(Backends, DirectoryReadTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(DirectoryReadTest, ReadsARangeInOrder) {
  std::vector<std::size_t> pieces(17, 1'000'000);
  pieces.push_back(0);
  pieces.push_back(123);
  const auto result = fetch(of(path), listed(), 1'500'000, pieces);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message;
  EXPECT_TRUE(result.bytes == kFile.substr(1'500'000, 17'000'123));
  ASSERT_EQ(result.filled.size(), pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) EXPECT_EQ(result.filled[i], i);
  EXPECT_EQ(client().statistics().bytes, 17'000'123u);
  EXPECT_TRUE(fetch(of(path), {}, 0, {20'000'000}).status.ok());
}

TEST_P(DirectoryReadTest, NoticesThatTheFileHasChanged) {
  const OriginExpectation before = listed();
  EXPECT_EQ(fetch(of(path), {kFile.size() + 1, ""}, 0, {10}).status.code(),
            ErrorCode::kOriginChanged);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file << "x";
  }
  EXPECT_EQ(fetch(of(path), before, 0, {10}).status.code(), ErrorCode::kOriginChanged);
  EXPECT_TRUE(fetch(of(path), listed(), 0, {10}).status.ok());
  EXPECT_EQ(fetch(of(path), {}, kFile.size() - 5, {10}).status.code(), ErrorCode::kOriginChanged);
}

// As backups by hard links, and administrators, do it.
TEST_P(DirectoryReadTest, ReadsAFileWhoseLinksModeOrOwnerAreOthers) {
  const OriginExpectation before = listed();
  untilChanged([this] {
    std::filesystem::remove(folder + "/copy");
    std::filesystem::create_hard_link(path, folder + "/copy");
  });
  EXPECT_TRUE(fetch(of(path), before, 0, {10}).status.ok());
  std::filesystem::remove(folder + "/copy");
  EXPECT_EQ(chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(fetch(of(path), before, 0, {10}).status.ok());
}

TEST_P(DirectoryReadTest, NoticesAWriterWhoPutsTheTimeBack) {
  const OriginExpectation before = listed();
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  untilChanged([&] {
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "x";
    const timespec times[] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  });
  EXPECT_EQ(fetch(of(path), before, 0, {10}).status.code(), ErrorCode::kOriginChanged);
}

TEST_P(DirectoryReadTest, NoticesAnotherFileOfTheSameTime) {
  const OriginExpectation before = listed();
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  untilChanged([&] {
    write(folder + "/other", kFile);
    const timespec times[] = {info.st_atim, info.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, (folder + "/other").c_str(), times, 0), 0);
    std::filesystem::rename(folder + "/other", path);
  });
  const auto read = fetch(of(path), before, 0, {10});
  EXPECT_EQ(read.status.code(), ErrorCode::kOriginChanged);
  EXPECT_NE(read.status.error().message.find("another file is in its place"), std::string::npos);
}

TEST_P(DirectoryReadTest, KnowsTheValidatorsOfEarlierReleases) {
  OriginExpectation now = listed();
  std::size_t colon = 0;
  for (int fields = 0; fields < 3; ++fields) colon = now.validator.find(':', colon + 1);
  now.validator.resize(colon);
  EXPECT_TRUE(fetch(of(path), now, 0, {10}).status.ok());
  now.validator += ":1";
  EXPECT_EQ(fetch(of(path), now, 0, {10}).status.code(), ErrorCode::kInvalidArgument);
}

// Files of the kernel; reads behind the first megabyte wait until they are let go.
class LaterReadsWait final : public OriginFiles {
 public:
  Result<std::unique_ptr<OriginFile>> open(const std::string& root,
                                           const std::string& path) override {
    auto file = kernel_->open(root, path);
    if (!file.ok()) return file;
    return std::unique_ptr<OriginFile>(std::make_unique<Waiting>(std::move(*file), free));
  }
  const std::shared_ptr<std::atomic<bool>> free = std::make_shared<std::atomic<bool>>(false);

 private:
  class Waiting final : public OriginFile {
   public:
    Waiting(std::unique_ptr<OriginFile> file, std::shared_ptr<std::atomic<bool>> free)
        : file_(std::move(file)), free_(std::move(free)) {}
    Result<OriginFileInfo> info() override { return file_->info(); }
    Result<std::size_t> readAt(std::span<std::byte> into, std::uint64_t offset) override {
      if (offset >= 1'000'000) free_->wait(false);
      return file_->readAt(into, offset);
    }
    void willRead(std::uint64_t offset, std::uint64_t length) override {
      file_->willRead(offset, length);
    }

   private:
    const std::unique_ptr<OriginFile> file_;
    const std::shared_ptr<std::atomic<bool>> free_;
  };
  const std::unique_ptr<OriginFiles> kernel_ = kernelOriginFiles();
};

// Gives the first piece, then the file is written to: no later piece may be given.
TEST_P(DirectoryReadTest, GivesNoPieceOnceTheFileChanges) {
  auto files = std::make_unique<LaterReadsWait>();
  const auto free = files->free;
  options.directories =
      std::make_shared<DirectoryCalls>(std::move(files), DirectoryCalls::Limits{});
  std::vector<std::byte> memory(10'000'000);
  std::vector<std::span<std::byte>> pieces;
  for (int i = 0; i < 10; ++i)
    pieces.push_back(std::span(memory).subspan(static_cast<std::size_t>(i) * 1'000'000, 1'000'000));
  std::size_t given = 0;
  const Status status =
      run(client().fetch(of(path), listed(), 0, pieces, [this, &given, free](std::size_t) {
        if (++given != 1) return;
        std::filesystem::resize_file(path, 15'000'000);
        free->store(true);
        free->notify_all();
      }));
  EXPECT_EQ(status.code(), ErrorCode::kOriginChanged);
  EXPECT_EQ(given, 1u);
}

TEST_P(DirectoryReadTest, RefusesWhatIsNoRegularFile) {
  ASSERT_EQ(symlink(path.c_str(), (folder + "/link").c_str()), 0);
  EXPECT_EQ(fetch(of(folder + "/link"), {}, 0, {10}).status.code(), ErrorCode::kUnsupported);
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(fetch(of(folder + "/pipe"), {}, 0, {10}).status.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(fetch(of(folder), {}, 0, {10}).status.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(fetch(of(folder + "/absent"), {}, 0, {10}).status.code(), ErrorCode::kNotFound);
}

// A writer of the directory replaces a listed folder by a link to foreign files.
TEST_P(DirectoryReadTest, IsNotLedElsewhereByALinkThatTookTheFoldersPlace) {
  std::filesystem::create_directory(folder + "/prefix");
  std::filesystem::create_directory(folder + "/prefix/tenant");
  std::filesystem::create_directory(folder + "/outside");
  write(folder + "/outside/file", "secret");
  write(folder + "/prefix/tenant/file", "listed");
  Location location;
  location.path = folder + "/prefix/tenant/file";
  location.below = folder + "/prefix";
  ASSERT_EQ(fetch(location, {}, 0, {6}).bytes, "listed");
  std::filesystem::remove_all(folder + "/prefix/tenant");
  std::filesystem::create_directory_symlink(folder + "/outside", folder + "/prefix/tenant");
  const auto swapped = fetch(location, {}, 0, {6});
  EXPECT_EQ(swapped.status.code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(swapped.filled.empty());
  // The directory itself may be reached by a link: whoever named it answers for it.
  location.below = folder + "/prefix/tenant";
  EXPECT_EQ(fetch(location, {}, 0, {6}).bytes, "secret");
}

TEST_P(DirectoryReadTest, WantsToKnowBelowWhichDirectory) {
  Location location = of(path);
  for (const std::string& below : {std::string(), folder + "/other", path, folder.substr(0, 3)}) {
    location.below = below;
    EXPECT_EQ(fetch(location, {}, 0, {6}).status.code(), ErrorCode::kInvalidArgument) << below;
  }
  location.below = "/";
  EXPECT_TRUE(fetch(location, {}, 0, {6}).status.ok());
}

TEST_P(DirectoryReadTest, EndsWhenTheClientCloses) {
  run(client().close());
  EXPECT_EQ(fetch(of(path), {}, 0, {10}).status.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace hearth
