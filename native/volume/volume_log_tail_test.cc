// A log whose groups are durable in its tail before its file has them.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <span>
#include <string>

#include "volume/log_names.h"
#include "volume/testing/tmpfs_folder.h"
#include "volume/testing/volume_log_fixture.h"

namespace hearth {
namespace {

using testing_support::kLogTree;
using tree::Namespace;

constexpr auto kNever = std::chrono::hours(1);

class VolumeLogTailTest : public testing_support::VolumeLogFixture {
 protected:
  VolumeLog::Options options(Clock::duration writeAfter = kNever) const {
    return {.folder = "/v",
            .tree = kLogTree,
            .durability = LogDurability::kWritten,
            .tail = path,
            .writeAfter = writeAfter};
  }
  // Of which the records so far are in the file, with room behind them.
  std::unique_ptr<VolumeLog> begun(VolumeLog::Options with) {
    auto log = openWith(1, std::move(with));
    settle(*log);
    return log;
  }
  std::unique_ptr<VolumeLog> begun() { return begun(options()); }
  void settle(VolumeLog& log) {
    appendTo(log);
    EXPECT_TRUE(run(log.durable(volume.tree.lastRecord())).ok());
  }
  void add(VolumeLog& log, std::size_t newFiles = 1) {
    make(newFiles);
    settle(log);
  }
  // The last record that the next process finds in these files with that tail.
  std::uint64_t lastIn(CrashFileSystem& of, const std::string& tail) {
    VolumeLog::Options with = options();
    with.tail = tail;
    Namespace into(with.tree);
    const auto log = run(VolumeLog::open(*reactor, of, with, into));
    EXPECT_TRUE(log.ok()) << log.error().message;
    if (into.lastRecord() == volume.tree.lastRecord()) {
      EXPECT_EQ(bytesOf(into), bytesOf(volume.tree));
    }
    // The records have come into the file, for good.
    Namespace again(with.tree);
    EXPECT_TRUE(open(*of.crashCopy(1), again).ok());
    EXPECT_EQ(bytesOf(again), bytesOf(into));
    EXPECT_TRUE(run((*log)->close()).ok());
    return into.lastRecord();
  }
  std::string copyOfTail() const {
    std::filesystem::copy_file(path, path + ".copy",
                               std::filesystem::copy_options::overwrite_existing);
    return path + ".copy";
  }
  // The process is killed now.
  void expectLeft(std::uint64_t record) {
    EXPECT_EQ(lastIn(*files.killCopy(), copyOfTail()), record);
  }
  void expectAllLeft() { expectLeft(volume.tree.lastRecord()); }
  std::uint64_t lastWithoutTail() { return lastIn(*files.killCopy(), ""); }

  testing_support::TmpfsFolder tmpfs;
  const std::string path = tmpfs.path() + "/tail";
};

TEST_F(VolumeLogTailTest, RecordsAreDurableBeforeTheFileHasThem) {
  auto log = begun();
  EXPECT_TRUE(log->tailError().ok());
  const std::uint64_t operations = files.operations(), before = log->durableRecord();
  for (int i = 0; i < 20; ++i) add(*log);
  EXPECT_EQ(files.operations(), operations);
  EXPECT_EQ(log->durableRecord(), volume.tree.lastRecord());
  EXPECT_EQ(lastWithoutTail(), before);
  expectAllLeft();
  EXPECT_TRUE(run(log->close()).ok());
  // One write took all groups, between the sync that was due and its own.
  EXPECT_EQ(files.operations(), operations + 3);
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  expectReplayed(*files.crashCopy(1));
}

TEST_F(VolumeLogTailTest, RecordsComeIntoTheFileAndAreSynced) {
  auto log = begun(options(std::chrono::milliseconds(1)));
  for (int i = 0; i < 20; ++i) add(*log);
  while (lastWithoutTail() != volume.tree.lastRecord()) run(sleep());
  while (log->syncedRecord() != volume.tree.lastRecord()) run(sleep());
  expectReplayed(*files.crashCopy(1));
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, AFullTailIsWrittenFirst) {
  auto log = begun();
  const std::uint64_t operations = files.operations();
  while (files.operations() == operations) add(*log, 100);
  EXPECT_GT(log->logBytes(), LogTail::kBytes / 4);
  expectAllLeft();
  // A group that is larger than the tail is never in it.
  const auto file = volume.ask(client, tree::Create{.place = tree::inRoot("x")}).inode;
  for (int i = 0; i < 10; ++i) {
    volume.ask(client, tree::SetXattr{file, "user.x", std::string(30'000, 'v'), {}});
  }
  settle(*log);
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  add(*log);
  expectAllLeft();
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, AKillBetweenAnyTwoStepsLosesNothing) {
  std::mt19937_64 random(1);
  auto log = begun(options(std::chrono::microseconds(1)));
  for (int step = 0; step < 200; ++step) {
    switch (random() % 8) {
      case 0:
        EXPECT_TRUE(run(log->checkpoint()).ok());
        break;
      case 1:
        run(sleep());
        break;
      case 2:
        EXPECT_TRUE(run(log->close()).ok());
        log = openWith(0, options(std::chrono::microseconds(1)));
        break;
      case 3:
        add(*log, 50);
        break;
      default:
        add(*log);
    }
    expectAllLeft();
    if (HasFailure()) break;
  }
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, AFailedWriteRefusesMoreAndIsRepeated) {
  auto log = begun(options(std::chrono::microseconds(1)));
  files.inject(FileCall::kWrite, 1, ENOSPC, 50);
  add(*log);
  while (log->accepts()) run(sleep());
  EXPECT_EQ(log->writeError().code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(run(log->reserve()).code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(run(log->checkpoint()).code(), ErrorCode::kOutOfSpace);
  EXPECT_FALSE(log->accepts());
  // Changes that were executed before are answered.
  add(*log);
  expectAllLeft();
  while (!run(log->reserve()).ok()) expectAllLeft();
  EXPECT_TRUE(log->accepts());
  EXPECT_TRUE(log->writeError().ok());
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, AnIdleLogRepeatsAFailedWrite) {
  auto log = begun(options(std::chrono::microseconds(1)));
  files.inject(FileCall::kWrite, 1, EIO);
  add(*log);
  while (log->accepts()) run(sleep());
  while (!log->accepts()) run(sleep());
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, TheNextLeaderWritesWhatAFailedCloseLeft) {
  auto log = begun();
  add(*log, 3);
  // The write that was due, and the one of close().
  files.inject(FileCall::kWrite, 1, EIO, 2);
  EXPECT_EQ(run(log->close()).code(), ErrorCode::kIoError);
  log.reset();
  files.inject(FileCall::kWrite, 1, EIO, 1);
  Namespace refused(kLogTree);
  EXPECT_EQ(run(VolumeLog::open(*reactor, files, options(), refused)).code(), ErrorCode::kIoError);
  expectAllLeft();
  log = openWith(0, options());
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, ATailOfAnotherLogIsIgnored) {
  auto log = begun();
  const std::uint64_t before = volume.tree.lastRecord();
  add(*log, 2);
  const std::uint64_t last = volume.tree.lastRecord();
  const auto former = files.killCopy();
  const std::string tail = copyOfTail();
  EXPECT_EQ(lastIn(*former->killCopy(), tail), last);
  // Of a segment before the last one, and of one that is gone.
  EXPECT_TRUE(run(log->checkpoint()).ok());
  expectAllLeft();
  add(*log, 2);
  const std::string stale = tail + ".stale";
  std::filesystem::copy_file(path, stale);
  EXPECT_EQ(lastIn(*former->killCopy(), stale), before);
  EXPECT_TRUE(run(log->close()).ok());
  // Of a volume or store that had other ids.
  VolumeLog::Options other = options();
  other.folder = "/w";
  for (const tree::NamespaceOptions& tree :
       {tree::NamespaceOptions{.store = {1}, .volume = {9}}, {.store = {9}, .volume = {2}}}) {
    other.tree = tree;
    CrashFileSystem empty;
    ASSERT_TRUE(run(empty.makeDirectory("/w", 0700)).ok());
    Namespace into(tree);
    auto opened = run(VolumeLog::open(*reactor, empty, other, into));
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(into.lastRecord(), 0u);
    EXPECT_TRUE(run((*opened)->close()).ok());
  }
}

// An agent of a release that knows no tails has led the volume since.
TEST_F(VolumeLogTailTest, ALogThatWentOnWithoutItsTailIsNotTouched) {
  auto log = begun();
  const std::uint64_t before = volume.tree.lastRecord();
  add(*log);
  add(*log);
  const std::string tail = copyOfTail();
  auto other = files.killCopy();
  EXPECT_TRUE(run(log->close()).ok());
  Namespace tree(kLogTree);
  auto without = std::move(*open(*other, tree));
  ASSERT_EQ(tree.lastRecord(), before);
  // Its records have the sizes of those in the tail.
  tree::LedNamespace led(kLogTree);
  const tree::ClientId writer = led.join("a");
  for (const char* name : {"f0", "g1"}) {
    led.ask(writer, tree::Create{.place = tree::inRoot(name), .opens = true});
  }
  ASSERT_EQ(led.log[before - 1], volume.log[before - 1]);
  for (const tree::Record& record : std::span(led.log).subspan(before)) without->append(record);
  const std::uint64_t last = led.tree.lastRecord();
  EXPECT_TRUE(run(without->durable(last)).ok());
  without.reset();
  EXPECT_EQ(lastIn(*other, tail), last);
}

TEST_F(VolumeLogTailTest, WorksWithoutATmpfs) {
  VolumeLog::Options none = options();
  none.tail = "/proc/hearth/tail";
  auto log = begun(none);
  EXPECT_EQ(log->tailError().code(), ErrorCode::kUnsupported);
  add(*log);
  EXPECT_EQ(lastWithoutTail(), volume.tree.lastRecord());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTailTest, ATailThatCannotBeReadIsNotForgotten) {
  std::filesystem::create_directory(path);
  Namespace into(kLogTree);
  EXPECT_FALSE(run(VolumeLog::open(*reactor, files, options(), into)).ok());
}

}  // namespace
}  // namespace hearth
