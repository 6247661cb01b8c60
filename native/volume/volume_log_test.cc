#include "volume/volume_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "files/crash_file_system.h"
#include "namespace/testing/led_namespace.h"
#include "volume/log_names.h"

namespace hearth {
namespace {

using tree::Answer;
using tree::ClientId;
using tree::Create;
using tree::inRoot;
using tree::LedNamespace;
using tree::Namespace;
using tree::NamespaceOptions;
using tree::Record;

const NamespaceOptions kOptions{.store = {1}, .volume = {2}};

class VolumeLogTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run(files.makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  Result<std::unique_ptr<VolumeLog>> open(FileSystem& from, Namespace& into,
                                          NamespaceOptions options = kOptions) {
    return run(VolumeLog::open(*reactor, from, {"/v", options}, into));
  }
  Task<void> sleep() { co_await reactor->sleep(std::chrono::milliseconds(10)); }
  // Appends what the volume has done since the last call.
  void appendTo(VolumeLog& log) {
    for (; appended < volume.log.size(); ++appended) log.append(volume.log[appended]);
  }
  void make(std::size_t files_) {
    for (std::size_t i = 0; i < files_; ++i) {
      const std::string name = "f" + std::to_string(made++);
      volume.ask(client, Create{.place = inRoot(name), .opens = true});
    }
  }
  static tree::Bytes bytesOf(const Namespace& tree) {
    tree::Bytes bytes;
    tree.checkpoint(bytes);
    return bytes;
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    auto listed = run(files.list("/v", ListDetail::kKinds));
    for (const DirectoryEntry& entry : *listed) all.push_back(entry.name);
    std::ranges::sort(all);
    return all;
  }
  void expectReplayed(FileSystem& from) {
    Namespace replayed(kOptions);
    const auto log = open(from, replayed);
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_EQ(bytesOf(replayed), bytesOf(volume.tree));
    EXPECT_EQ((*log)->durableRecord(), volume.tree.lastRecord());
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  LedNamespace volume{kOptions};
  ClientId client = volume.join("a");
  std::size_t appended = 0, made = 0;
};

TEST_F(VolumeLogTest, GivesTheTreeBack) {
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(20);
  appendTo(*log);
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
  Namespace empty(kOptions);
  const VolumeLog::Options options{"/v", kOptions, LogDurability::kWritten};
  auto log = std::move(*run(VolumeLog::open(*reactor, files, options, empty)));
  make(20);
  appendTo(*log);
  const std::uint64_t last = volume.tree.lastRecord();
  EXPECT_TRUE(run(log->durable(last)).ok());
  expectReplayed(*files.killCopy());
  Namespace crashed(kOptions);
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
  Namespace empty(kOptions);
  const VolumeLog::Options options{"/v", kOptions, LogDurability::kWritten};
  auto log = std::move(*run(VolumeLog::open(*reactor, files, options, empty)));
  make(3);
  appendTo(*log);
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
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
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
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
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

TEST_F(VolumeLogTest, AcceptsNoRecordThatTheDiskHasNoRoomFor) {
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(5);
  appendTo(*log);
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
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(5);
  appendTo(*log);
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
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(3);
  appendTo(*log);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_FALSE(run(log->durable(1)).ok());
  log.reset();
  expectReplayed(files);
  for (std::uint64_t seed = 0; seed < 20; ++seed) expectReplayed(*files.crashCopy(seed));
  // The same of the name of a segment.
  Namespace second(kOptions);
  log = std::move(*open(files, second));
  files.inject(FileCall::kSyncDirectory, 1, EIO);
  EXPECT_FALSE(run(log->checkpoint()).ok());
  Namespace third(kOptions);
  log = std::move(*open(files, third));
  make(3);
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  for (std::uint64_t seed = 0; seed < 20; ++seed) expectReplayed(*files.crashCopy(seed));
}

TEST_F(VolumeLogTest, ATornGroupIsCutOff) {
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(3);
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(1)).ok());
  const std::string segment = "/v/" + segmentName(1);
  const std::uint64_t whole = log->logBytes();
  const Record next = *volume.tree.lead(2, 0);
  log->append(next);
  EXPECT_TRUE(run(log->durable(next.number)).ok());
  for (std::uint64_t cut = whole + 1; cut < log->logBytes(); ++cut) {
    const auto copy = files.killCopy();
    EXPECT_TRUE(run((*run(copy->open(segment, {.write = true})))->truncate(cut)).ok());
    Namespace into(kOptions);
    const auto opened = open(*copy, into);
    ASSERT_TRUE(opened.ok()) << cut;
    EXPECT_EQ(into.lastRecord() + 1, next.number);
    EXPECT_EQ(run(copy->info(segment))->size, whole);
  }
}

TEST_F(VolumeLogTest, DamageThatHadBeenSyncedIsRefused) {
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  for (int group = 0; group < 3; ++group) {
    make(2);
    appendTo(*log);
    EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  }
  log.reset();
  const auto codeAfter = [&](const std::string& path, std::uint64_t offset) {
    const auto copy = files.killCopy();
    copy->corrupt(path, offset);
    Namespace into(kOptions);
    return open(*copy, into).code();
  };
  const std::string segment = "/v/" + segmentName(1);
  for (std::uint64_t offset = 0; offset < 400; offset += 7) {
    // Nothing reads the four bytes of zeros but the checksum, which the head needs.
    EXPECT_EQ(codeAfter(segment, offset), ErrorCode::kCorrupt) << offset;
  }
  Namespace again(kOptions);
  log = std::move(*open(files, again));
  EXPECT_TRUE(run(log->checkpoint()).ok());
  const std::string checkpoint = "/v/" + checkpointName(log->checkpointedRecord());
  EXPECT_EQ(codeAfter(checkpoint, 100), ErrorCode::kCorrupt);
}

TEST_F(VolumeLogTest, ALogOfAnotherStoreIsRefused) {
  Namespace empty(kOptions);
  auto log = std::move(*open(files, empty));
  make(1);
  appendTo(*log);
  EXPECT_TRUE(run(log->durable(1)).ok());
  Namespace other(kOptions);
  EXPECT_EQ(open(files, other, {.store = {9}, .volume = {2}}).code(), ErrorCode::kConflict);
  EXPECT_TRUE(run(log->checkpoint()).ok());
  Namespace checkpointed(kOptions);
  EXPECT_EQ(open(files, checkpointed, {.store = {1}, .volume = {9}}).code(), ErrorCode::kConflict);
}

}  // namespace
}  // namespace hearth
