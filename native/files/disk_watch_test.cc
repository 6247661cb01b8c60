#include "files/disk_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <thread>

#include "base/testing/eventually.h"
#include "files/testing/faulty_file_system.h"
#include "files/watched_file_system.h"

namespace hearth {
namespace {

using testing_support::DiskFaults;
using testing_support::FaultyFileSystem;

class DiskWatchTest : public testing::Test {
 protected:
  DiskWatchTest() {
    watch->setStall(std::chrono::milliseconds(200));
    watch->setObserver([this] { ++hung; });
  }
  ~DiskWatchTest() override {
    faults->resume();
    EXPECT_TRUE(awaitIdle());
    std::filesystem::remove_all(disk);
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  bool awaitIdle() {
    return eventually([this] {
      run([](Reactor& on) -> Task<void> {
        co_await on.sleep(std::chrono::milliseconds(5));
      }(*reactor));
      return watch->isIdle();
    });
  }
  Status write(const std::string& name) {
    struct Wrap {
      static Task<Status> run(FileSystem& files, std::string path) {
        auto file = co_await files.open(std::move(path), {.write = true, .create = true});
        if (!file.ok()) co_return file.error();
        const std::vector<std::byte> bytes(10'000, std::byte{1});
        co_return co_await (*file)->writeAt(bytes, 0);
      }
    };
    return run(Wrap::run(files, disk + "/" + name));
  }
  Result<std::vector<std::byte>> read(const std::string& name) {
    struct Wrap {
      static Task<Result<std::vector<std::byte>>> run(FileSystem& files, std::string path) {
        auto file = co_await files.open(std::move(path), {});
        if (!file.ok()) co_return file.error();
        std::vector<std::byte> bytes(10'000);
        const auto count = co_await (*file)->readAt(bytes, 0);
        if (!count.ok()) co_return count.error();
        bytes.resize(*count);
        co_return bytes;
      }
    };
    return run(Wrap::run(files, disk + "/" + name));
  }

  const std::string disk = [] {
    char name[] = "/tmp/hearth-disk-XXXXXX";
    return std::string(mkdtemp(name));
  }();
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  const std::shared_ptr<DiskFaults> faults = std::make_shared<DiskFaults>(disk);
  FaultyFileSystem below{*reactor, faults};
  const std::shared_ptr<DiskWatch> watch = std::make_shared<DiskWatch>(disk, 2);
  WatchedFileSystem files{*reactor, below, {watch}};
  int hung = 0;
};

TEST_F(DiskWatchTest, AReadThatHangsStopsAllUse) {
  ASSERT_TRUE(write("a").ok());
  EXPECT_EQ(read("a")->size(), 10'000u);
  faults->hang({DiskOperation::kRead});
  EXPECT_EQ(read("a").code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(watch->readsHang());
  EXPECT_TRUE(watch->changesHang());
  EXPECT_EQ(hung, 1);
  EXPECT_EQ(write("b").code(), ErrorCode::kUnavailable);
  EXPECT_NE(watch->error().message.find("a read hangs"), std::string::npos);
  EXPECT_FALSE(watch->beginTrial()) << "the read has not ended";
  faults->resume();
  ASSERT_TRUE(awaitIdle());
  EXPECT_EQ(read("a").code(), ErrorCode::kUnavailable) << "nobody knows yet that it works";
  ASSERT_TRUE(watch->beginTrial());
  EXPECT_FALSE(watch->beginTrial()) << "one at a time";
  watch->endTrial(true);
  EXPECT_EQ(read("a")->size(), 10'000u);
}

TEST_F(DiskWatchTest, AChangeThatHangsLeavesReads) {
  ASSERT_TRUE(write("a").ok());
  faults->hang({DiskOperation::kWrite});
  EXPECT_EQ(write("b").code(), ErrorCode::kUnavailable);
  EXPECT_FALSE(watch->readsHang());
  EXPECT_TRUE(watch->changesHang());
  EXPECT_EQ(read("a")->size(), 10'000u);
  EXPECT_EQ(run(files.unlink(disk + "/a")).code(), ErrorCode::kUnavailable);
}

TEST_F(DiskWatchTest, ASyncIsWaitedForAsLongAsWritesEnd) {
  std::optional<DiskWatch::Call> sync = watch->begin(DiskOperation::kSync);
  // Each look counts for at most two of DiskWatch::kLook.
  const auto look = [this] {
    std::this_thread::sleep_for(DiskWatch::kLook);
    watch->look();
  };
  for (int i = 0; i < 5; ++i) {
    look();
    (void)watch->begin(DiskOperation::kWrite);
    (void)watch->begin(DiskOperation::kInfo);
    EXPECT_FALSE(watch->changesHang());
  }
  EXPECT_TRUE(eventually([&] {
    look();
    (void)watch->begin(DiskOperation::kInfo);  // says nothing of what is written
    return watch->changesHang();
  }));
  sync.reset();
}

TEST_F(DiskWatchTest, ATrialIsMadeAllTheSameAndGivenUpWhenItHangs) {
  faults->hang({DiskOperation::kUnlink});
  EXPECT_EQ(run(files.unlink(disk + "/none")).code(), ErrorCode::kUnavailable);
  faults->resume();
  ASSERT_TRUE(awaitIdle());
  WatchedFileSystem trial(*reactor, below, {watch}, WatchedFileSystem::Purpose::kTrial);
  EXPECT_EQ(run(trial.unlink(disk + "/none")).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(watch->changesHang());
}

TEST_F(DiskWatchTest, ACallOnItsThreadsIsNotWaitedFor) {
  const auto free = std::make_shared<std::atomic<bool>>(false);
  std::function<void()> stuck = [free] {
    while (!*free) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_EQ(run(files.call(disk + "/a", DiskOperation::kRead, std::move(stuck))).code(),
            ErrorCode::kUnavailable);
  EXPECT_FALSE(watch->isIdle());
  *free = true;
}

TEST_F(DiskWatchTest, OtherDisksAreNotWatched) {
  faults->hang({DiskOperation::kInfo});
  EXPECT_EQ(run(files.info(disk)).code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(run(files.info("/")).ok());
}

}  // namespace
}  // namespace hearth
