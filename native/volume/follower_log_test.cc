#include "volume/follower_log.h"

#include "volume/log_names.h"
#include "volume/log_reader.h"
#include "volume/testing/volume_log_fixture.h"

namespace hearth {
namespace {

using testing_support::kLogTree;

class FollowerLogTest : public testing_support::VolumeLogFixture {
 protected:
  std::unique_ptr<FollowerLog> followIn(FileSystem& of) {
    return std::make_unique<FollowerLog>(
        *reactor, of,
        VolumeLog::Options{
            .folder = "/v/volumes/x/log", .tree = kLogTree, .durability = LogDurability::kWritten});
  }
  // A leader's log with so many files, all durable.
  std::unique_ptr<VolumeLog> ledWith(std::size_t newFiles) {
    auto log = openWith(newFiles);
    EXPECT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
    return log;
  }
  LogReader::Batch read(LogReader& reader, std::size_t most = kMaxLogPiece) {
    auto batch = run(reader.next(most));
    EXPECT_TRUE(batch.ok());
    return std::move(*batch);
  }
  LogReader readerAt(const VolumeLog& log, LogPosition at) {
    LogReader reader(log);
    EXPECT_TRUE(*run(reader.seek(at)));
    return reader;
  }
  LogAppendMessage messageOf(const LogReader::Batch& batch, std::uint64_t epoch = 1) {
    return {kLogTree.volume, epoch, batch.after, batch.records};
  }
  LogOutcome append(FollowerLog& to, LogAppendMessage message) {
    const auto reply = run(to.append(std::move(message)));
    EXPECT_TRUE(reply.ok()) << reply.error().message;
    return reply->outcome;
  }
  // The tree that a leader finds in the follower's folder.
  tree::Bytes treeIn(FileSystem& of) {
    tree::Namespace replayed(kLogTree);
    const auto log = run(
        VolumeLog::open(*reactor, of, {.folder = "/v/volumes/x/log", .tree = kLogTree}, replayed));
    EXPECT_TRUE(log.ok());
    return bytesOf(replayed);
  }
  std::vector<std::byte> checkpointOf(VolumeLog& log) {
    EXPECT_TRUE(run(log.checkpoint()).ok());
    auto file = std::move(*run(log.openCheckpoint(log.checkpointedRecord())));
    std::vector<std::byte> bytes(run(file->info())->size);
    EXPECT_EQ(*run(file->readAt(bytes, 0)), bytes.size());
    return bytes;
  }
  LogInstallMessage pieceOf(const std::vector<std::byte>& checkpoint, LogPosition at,
                            std::size_t offset, std::size_t size) {
    const auto begin = checkpoint.begin() + static_cast<std::ptrdiff_t>(offset);
    return {.volume = kLogTree.volume,
            .epoch = 1,
            .replaced = replaced,
            .checkpoint = at,
            .size = checkpoint.size(),
            .offset = offset,
            .piece = {begin, begin + static_cast<std::ptrdiff_t>(size)}};
  }

  LogPosition replaced;  // of the messages
  // The follower's machine.
  std::unique_ptr<CrashFileSystem> other = files.killCopy();

  void SetUp() override {
    VolumeLogFixture::SetUp();
    ASSERT_TRUE(run(other->makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(other->syncDirectory("/")).ok());
  }
};

TEST_F(FollowerLogTest, TakesRecordsInOrderAndHasThemAfterItsProcessWasKilled) {
  const auto log = ledWith(40);
  auto follower = followIn(*other);
  EXPECT_EQ(run(follower->state({kLogTree.volume, 1}))->last, LogPosition{});
  LogReader reader = readerAt(*log, {});
  std::size_t messages = 0;
  for (;; ++messages) {
    const auto batch = read(reader, tree::kMaxRecordBytes);
    if (batch.records.empty()) break;
    ASSERT_EQ(append(*follower, messageOf(batch)), LogOutcome::kTaken);
  }
  EXPECT_GT(messages, 0u);
  EXPECT_EQ(run(follower->state({kLogTree.volume, 1}))->last,
            (LogPosition{1, volume.tree.lastRecord()}));
  const auto left = other->killCopy();
  EXPECT_TRUE(run(follower->close()).ok());
  EXPECT_EQ(treeIn(*left), bytesOf(volume.tree));
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(FollowerLogTest, RefusesGapsLowerEpochsAndDamage) {
  const auto log = ledWith(10);
  auto follower = followIn(*other);
  LogReader reader = readerAt(*log, {});
  const auto all = read(reader);
  // Records of a later epoch than the sender's.
  EXPECT_EQ(run(follower->append(messageOf(all, 0))).code(), ErrorCode::kCorrupt);
  LogReader behind = readerAt(*log, {1, 3});
  EXPECT_EQ(append(*follower, messageOf(read(behind))), LogOutcome::kDoesNotFollow);
  LogAppendMessage damaged = messageOf(all);
  damaged.records[damaged.records.size() / 2] ^= std::byte{1};
  EXPECT_EQ(run(follower->append(damaged)).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(append(*follower, messageOf(all)), LogOutcome::kTaken);
  EXPECT_EQ(append(*follower, messageOf(all)), LogOutcome::kDoesNotFollow);
  // A candidate of epoch 5 has asked.
  EXPECT_EQ(run(follower->state({kLogTree.volume, 5}))->outcome, LogOutcome::kTaken);
  EXPECT_EQ(append(*follower, {kLogTree.volume, 4, all.last, {}}), LogOutcome::kLowerEpoch);
  EXPECT_EQ(append(*follower, {kLogTree.volume, 5, all.last, {}}), LogOutcome::kTaken);
  EXPECT_TRUE(run(follower->close()).ok());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(FollowerLogTest, BeginsAnewWithACheckpointInPiecesAndTakesTheRecordsBehindIt) {
  const auto log = ledWith(30);
  const auto checkpoint = checkpointOf(*log);
  const LogPosition at = log->checkpointed();
  EXPECT_EQ(at, (LogPosition{1, volume.tree.lastRecord()}));
  auto follower = followIn(*other);
  const std::size_t half = checkpoint.size() / 2;
  EXPECT_EQ(run(follower->install(pieceOf(checkpoint, at, half, 1)))->outcome,
            LogOutcome::kDoesNotFollow);
  EXPECT_EQ(run(follower->install(pieceOf(checkpoint, at, 0, half)))->installedBytes, half);
  // The answer was lost, and the piece comes again; records have to wait.
  EXPECT_EQ(run(follower->install(pieceOf(checkpoint, at, 0, half)))->installedBytes, half);
  EXPECT_EQ(append(*follower, {kLogTree.volume, 1, at, {}}), LogOutcome::kDoesNotFollow);
  const auto done = run(follower->install(pieceOf(checkpoint, at, half, checkpoint.size() - half)));
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->last, at);
  EXPECT_EQ(done->installing, LogPosition{});
  make(5);
  appendTo(*log);
  ASSERT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
  LogReader reader = readerAt(*log, at);
  EXPECT_EQ(append(*follower, messageOf(read(reader))), LogOutcome::kTaken);
  EXPECT_TRUE(run(follower->close()).ok());
  EXPECT_EQ(treeIn(*other), bytesOf(volume.tree));
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(FollowerLogTest, ALateMessageLeavesALogThatHasGrownAlone) {
  const auto log = ledWith(10);
  auto follower = followIn(*other);
  LogInstallMessage anew{.volume = kLogTree.volume, .epoch = 1};
  EXPECT_EQ(run(follower->install(anew))->outcome, LogOutcome::kTaken);
  LogReader reader = readerAt(*log, {});
  ASSERT_EQ(append(*follower, messageOf(read(reader))), LogOutcome::kTaken);
  const auto late = run(follower->install(anew));
  EXPECT_EQ(late->outcome, LogOutcome::kDoesNotFollow);
  EXPECT_EQ(late->last, (LogPosition{1, volume.tree.lastRecord()}));
  anew.replaced = late->last;
  EXPECT_EQ(run(follower->install(anew))->last, LogPosition{});
  EXPECT_TRUE(run(follower->close()).ok());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(FollowerLogTest, ADamagedCheckpointIsNoLog) {
  const auto log = ledWith(30);
  auto checkpoint = checkpointOf(*log);
  checkpoint[checkpoint.size() / 2] ^= std::byte{1};
  auto follower = followIn(*other);
  const auto answer =
      run(follower->install(pieceOf(checkpoint, log->checkpointed(), 0, checkpoint.size())));
  EXPECT_EQ(answer.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(run(follower->state({kLogTree.volume, 1}))->last, LogPosition{});
  EXPECT_TRUE(run(follower->close()).ok());
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(FollowerLogTest, ACrashWhileTheLogBeginsAnewLeavesALog) {
  const auto log = ledWith(30);
  LogReader reader = readerAt(*log, {});
  const auto all = read(reader);
  const auto checkpoint = checkpointOf(*log);
  auto follower = followIn(*other);
  ASSERT_EQ(append(*follower, messageOf(all)), LogOutcome::kTaken);
  ASSERT_TRUE(run(follower->close()).ok());
  for (std::uint64_t calls = 0;; ++calls) {
    SCOPED_TRACE("crash after " + std::to_string(calls));
    auto machine = other->killCopy();
    machine->crashAfter(calls);
    auto before = followIn(*machine);
    replaced = all.last;
    (void)run(before->install(pieceOf(checkpoint, log->checkpointed(), 0, checkpoint.size())));
    (void)run(before->close());
    const bool crashed = machine->crashed();
    const auto left = machine->crashCopy(calls);
    auto after = followIn(*left);
    const auto state = run(after->state({kLogTree.volume, 1}));
    ASSERT_TRUE(state.ok()) << state.error().message;
    EXPECT_LE(state->last.record, volume.tree.lastRecord());
    EXPECT_TRUE(run(after->close()).ok());
    if (!crashed || HasFailure()) break;
  }
  EXPECT_TRUE(run(log->close()).ok());
}

class LogReaderTest : public FollowerLogTest {};

TEST_F(LogReaderTest, GivesEachDurableRecordOnceWhileCheckpointsReplaceThem) {
  const auto log = ledWith(1);
  LogReader reader = readerAt(*log, {});
  LogPosition at;
  for (int round = 0; round < 6; ++round) {
    make(20);
    appendTo(*log);
    ASSERT_TRUE(run(log->durable(volume.tree.lastRecord())).ok());
    if (round % 2 == 1) ASSERT_TRUE(run(log->checkpoint()).ok());
    for (;;) {
      const auto batch = read(reader, tree::kMaxRecordBytes);
      EXPECT_EQ(batch.after, at);
      EXPECT_EQ(endOfRecords(batch.records, batch.after, 1), batch.last);
      at = batch.last;
      if (batch.records.empty() && at.record == volume.tree.lastRecord()) break;
    }
  }
  EXPECT_TRUE(run(log->close()).ok());
}

TEST_F(LogReaderTest, FindsOnlyRecordsThatTheLogHasInThatEpoch) {
  const auto log = ledWith(20);
  const std::uint64_t last = volume.tree.lastRecord();
  const auto finds = [&](LogPosition at) {
    LogReader reader(*log);
    const auto found = run(reader.seek(at));
    return found.ok() && *found;
  };
  EXPECT_TRUE(finds({}));
  EXPECT_TRUE(finds({1, last}));
  EXPECT_TRUE(finds({1, 2}));
  EXPECT_FALSE(finds({2, 2}));
  EXPECT_FALSE(finds({1, last + 1}));
  ASSERT_TRUE(run(log->checkpoint()).ok());
  EXPECT_TRUE(finds({1, last}));
  EXPECT_FALSE(finds({2, last}));
  EXPECT_FALSE(finds({1, last - 1}));
  EXPECT_FALSE(finds({}));
  EXPECT_TRUE(run(log->close()).ok());
}

}  // namespace
}  // namespace hearth
