#include "volume/volume_log.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "files/posix_file_system.h"
#include "volume/log_names.h"
#include "volume/testing/tmpfs_folder.h"
#include "volume/testing/volume_log_fixture.h"

namespace hearth {
namespace {

using testing_support::kLogTree;
using tree::Create;
using tree::inRoot;
using tree::Namespace;
using tree::Record;
using VolumeLogTest = testing_support::VolumeLogFixture;

TEST_F(VolumeLogTest, GivesTheTreeBack) {
  auto log = openWith(20);
  EXPECT_EQ(log->durableRecord(), 0u);
  EXPECT_TRUE(run(log->durable(5)).ok());
  // One write for all that wait.
  EXPECT_EQ(log->durableRecord(), volume.tree.lastRecord());
  EXPECT_EQ(run(log->durable(volume.tree.lastRecord() + 1)).code(), ErrorCode::kInvalidArgument);
  log.reset();
  expectReplayed(files);
  expectReplayed(*files.crashCopy(1));
}

TEST_F(VolumeLogTest, WrittenRecordsSurviveAKillAndAreSyncedInTheBackground) {
  auto log = openWith(20, {"/v", kLogTree, LogDurability::kWritten});
  const std::uint64_t last = volume.tree.lastRecord();
  EXPECT_TRUE(run(log->durable(last)).ok());
  expectReplayed(*files.killCopy());
  Namespace crashed(kLogTree);
  ASSERT_TRUE(open(*files.crashCopy(1), crashed).ok());
  while (log->syncedRecord() != last) run(sleep());
  expectReplayed(*files.crashCopy(1));
  make(1);
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(last + 1)).ok());
  EXPECT_TRUE(run(log->close()).ok());
  expectReplayed(*files.crashCopy(1));
}

// The kernel may have dropped the bytes of a failed sync, which a later sync does not tell.
TEST_F(VolumeLogTest, AFailedSyncIsMendedByACheckpoint) {
  auto log = openWith(3, {"/v", kLogTree, LogDurability::kWritten});
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  while (log->syncError().ok()) run(sleep());
  EXPECT_FALSE(log->accepts());
  EXPECT_TRUE(log->needsCheckpoint());
  EXPECT_TRUE(run(log->checkpoint()).ok());
  EXPECT_TRUE(log->accepts());
  expectReplayed(*files.crashCopy(1));
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(VolumeLogTest, LongLogsAreSeveralGroups) {
  auto log = openWith(0);
  const auto file = volume.ask(client, Create{.place = inRoot("f")}).inode;
  for (int i = 0; i < 300; ++i) {
    volume.ask(client, tree::SetXattr{file, "user.x", std::string(30'000, 'v'), {}});
  }
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  EXPECT_GT(log->logBytes(), 2 * kMaxGroupBytes);
  log.reset();
  expectReplayed(files);
}

TEST_F(VolumeLogTest, ACheckpointReplacesTheSegmentsBeforeIt) {
  auto log = openWith(0);
  for (int round = 0; round < 3; ++round) {
    make(10);
    appendTo(*log);
    const std::uint64_t last = volume.tree.lastRecord();
    ASSERT_TRUE(run(log->checkpoint()).ok());
    EXPECT_EQ(log->checkpointedRecord(), last);
    EXPECT_EQ(log->logBytes(), kSegmentHeadBytes);
    EXPECT_EQ(names(), (std::vector{checkpointName(last), segmentName(last + 1)}));
    expectReplayed(*files.crashCopy(1));
  }
  // Nothing happened since.
  EXPECT_TRUE(run(log->checkpoint()).ok());
  make(3);
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  log.reset();
  expectReplayed(files);
}

// Segments go while a group is written behind them.
TEST_F(VolumeLogTest, RecordsAreWrittenDuringCheckpoints) {
  const testing_support::TmpfsFolder folder;
  PosixFileSystem kernel(*reactor);
  const VolumeLog::Options options{folder.path(), kLogTree, LogDurability::kWritten};
  Namespace empty(kLogTree);
  auto log = std::move(*run(VolumeLog::open(*reactor, kernel, options, empty)));
  const auto write = [&]() -> Task<void> {
    for (int i = 0; i < 100; ++i) {
      make(1);
      appendTo(*log);
      EXPECT_TRUE((co_await log->durable(volume.tree.lastRecord())).ok());
    }
  };
  const auto checkpoint = [&]() -> Task<bool> {
    for (int i = 0; i < 20; ++i) {
      Gate writing(*reactor);
      writing.spawn(write());
      EXPECT_TRUE((co_await log->checkpoint()).ok());
      co_await writing.close();
    }
    co_return (co_await log->close()).ok();
  };
  EXPECT_TRUE(run(checkpoint()));
  Namespace replayed(kLogTree);
  ASSERT_TRUE(run(VolumeLog::open(*reactor, kernel, options, replayed)).ok());
  EXPECT_EQ(bytesOf(replayed), bytesOf(volume.tree));
}

TEST_F(VolumeLogTest, AcceptsNoRecordThatTheDiskHasNoRoomFor) {
  auto log = openWith(5);
  // The records fit, and no more does.
  files.inject(FileCall::kWrite, 2, ENOSPC);
  EXPECT_TRUE(run(log->durable(3)).ok());
  EXPECT_FALSE(log->accepts());
  EXPECT_EQ(log->writeError().code(), ErrorCode::kOutOfSpace);
  files.inject(FileCall::kWrite, 1, ENOSPC);
  EXPECT_EQ(run(log->reserve()).code(), ErrorCode::kOutOfSpace);
  EXPECT_TRUE(run(log->reserve()).ok());
  EXPECT_TRUE(log->accepts());
  EXPECT_TRUE(log->writeError().ok());
  // The room that is left is cut off when the log is opened again.
  log.reset();
  expectReplayed(files);
  expectReplayed(*files.crashCopy(1));
}

TEST_F(VolumeLogTest, AFullDiskLeavesTheRecordsToBeWrittenLater) {
  auto log = openWith(5);
  files.inject(FileCall::kWrite, 1, ENOSPC);
  EXPECT_EQ(run(log->durable(3)).code(), ErrorCode::kOutOfSpace);
  make(1);
  appendTo(*log);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_EQ(run(log->durable(3)).code(), ErrorCode::kIoError);
  EXPECT_EQ(log->durableRecord(), 0u);
  EXPECT_TRUE(run(log->durable(3)).ok());
  for (const FileCall call : {FileCall::kOpen, FileCall::kWrite, FileCall::kSync, FileCall::kName,
                              FileCall::kSyncDirectory}) {
    for (const std::uint64_t nth : {1, 2}) {
      make(1);
      appendTo(*log);
      files.inject(call, nth, ENOSPC);
      (void)run(log->checkpoint());
      make(1);
      appendTo(*log);
      (void)run(log->durable(volume.tree.lastRecord()));
      EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
      expectReplayed(*files.crashCopy(nth));
      expectReplayed(*files.killCopy());
    }
  }
  EXPECT_TRUE(run(log->checkpoint()).ok());
}

// A kill leaves what was written and not synced to the kernel; the next leader makes it durable
// before it relies on it.
TEST_F(VolumeLogTest, WhatWasReadAfterAKillSurvivesACrash) {
  auto log = openWith(3);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_FALSE(run(log->durable(1)).ok());
  log.reset();
  expectReplayed(files);
  for (std::uint64_t seed = 0; seed < 20; ++seed) expectReplayed(*files.crashCopy(seed));
  // The same of the name of a segment.
  log = openWith(0);
  files.inject(FileCall::kSyncDirectory, 1, EIO);
  EXPECT_FALSE(run(log->checkpoint()).ok());
  log = openWith(3);
  EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  for (std::uint64_t seed = 0; seed < 20; ++seed) expectReplayed(*files.crashCopy(seed));
}

TEST_F(VolumeLogTest, ATornGroupIsCutOff) {
  auto log = openWith(3);
  EXPECT_TRUE(run(log->durable(1)).ok());
  const std::string segment = "/v/" + segmentName(1);
  const std::uint64_t whole = log->logBytes();
  const Record next = *volume.tree.lead(2, 0);
  log->append(next);
  EXPECT_TRUE(run(log->durable(next.number)).ok());
  for (std::uint64_t cut = whole + 1; cut < log->logBytes(); ++cut) {
    const auto copy = files.killCopy();
    EXPECT_TRUE(run((*run(copy->open(segment, {.write = true})))->truncate(cut)).ok());
    Namespace into(kLogTree);
    const auto opened = open(*copy, into);
    ASSERT_TRUE(opened.ok()) << cut;
    EXPECT_EQ(into.lastRecord() + 1, next.number);
    EXPECT_EQ(run(copy->info(segment))->size, whole);
  }
}

TEST_F(VolumeLogTest, DamageThatHadBeenSyncedIsRefused) {
  auto log = openWith(0);
  for (int group = 0; group < 3; ++group) {
    make(2);
    appendTo(*log);
    EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  }
  log.reset();
  const auto codeAfter = [&](const std::string& path, std::uint64_t offset) {
    const auto copy = files.killCopy();
    copy->corrupt(path, offset);
    Namespace into(kLogTree);
    return open(*copy, into).code();
  };
  const std::string segment = "/v/" + segmentName(1);
  for (std::uint64_t offset = 0; offset < 400; offset += 7) {
    // Nothing reads the four bytes of zeros but the checksum, which the head needs.
    EXPECT_EQ(codeAfter(segment, offset), ErrorCode::kCorrupt) << offset;
  }
  log = openWith(0);
  EXPECT_TRUE(run(log->checkpoint()).ok());
  const std::string checkpoint = "/v/" + checkpointName(log->checkpointedRecord());
  EXPECT_EQ(codeAfter(checkpoint, 100), ErrorCode::kCorrupt);
}

TEST_F(VolumeLogTest, ALogOfAnotherStoreIsRefused) {
  auto log = openWith(1);
  EXPECT_TRUE(run(log->durable(1)).ok());
  Namespace other(kLogTree);
  EXPECT_EQ(open(files, other, {.store = {9}, .volume = {2}}).code(), ErrorCode::kConflict);
  EXPECT_TRUE(run(log->checkpoint()).ok());
  Namespace checkpointed(kLogTree);
  EXPECT_EQ(open(files, checkpointed, {.store = {1}, .volume = {9}}).code(), ErrorCode::kConflict);
}

}  // namespace
}  // namespace hearth
