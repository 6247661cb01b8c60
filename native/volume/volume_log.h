// The log of a volume on its leader's node, in a folder of its own: segments of records
// (log_segment.h), and the checkpoint before them.
//
//   log-NUMBER         records from that number on; the last one is appended to
//   checkpoint-NUMBER  the tree as of that record (namespace/checkpoint.h)
//
// A crash at any instant loses no record that was durable, and brings none back that was cut off.
// A log of kWritten may have a tail (log_tail.h): there a record is durable at once, and the file
// gets it a little later, with others.
// Used on one reactor's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "namespace/namespace.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "volume/background.h"
#include "volume/log_replay.h"
#include "volume/log_segment.h"
#include "volume/log_tail.h"

namespace hearth {

enum class LogDurability : std::uint8_t {
  kSynced,   // a record is durable when it is on the disk
  kWritten,  // when the kernel has it: it survives its process, and within a second the machine
};

class VolumeLog {
 public:
  struct Options {
    std::string folder;
    tree::NamespaceOptions tree;
    LogDurability durability = LogDurability::kSynced;
    // For checkpoints; null: the reactor's helpers. Recovery never waits behind other work there:
    // nobody is answered before it ends.
    ThreadPool* background = nullptr;
    std::string tail;  // file of a kWritten log's tail; it outlives the process. Empty: none
    // Groups stay so long in the tail alone, so that one write takes many of them.
    Clock::duration writeAfter = std::chrono::milliseconds(10);
  };
  // The leader begins a checkpoint when so much was logged since the last one, and lets changes
  // wait when so much was.
  static constexpr std::uint64_t kCheckpointFromBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  // Records that are not durable yet.
  static constexpr std::size_t kMostPendingBytes = std::size_t{32} << 20;
  // Zeros behind the last record keep this much of the disk for records to come: a change is
  // executed only when its record can be written.
  static constexpr std::uint64_t kReservedBytes = std::uint64_t{1} << 20;

  // How long after it was written a record of kWritten is synced at the latest, but for the time
  // that this takes.
  static constexpr Clock::duration kSyncAfter = std::chrono::milliseconds(500);
  // Groups in the tail of which a write failed are written again after this.
  static constexpr Clock::duration kWriteAgainAfter = std::chrono::seconds(1);

  // Opens or begins the log in the folder, which exists and is used by nobody else, and brings
  // `tree`, which is empty, to its last record. Files that a crash left behind are removed.
  // kCorrupt: bits have rotted; kUnsupported: a later release wrote it; kConflict: it is of another
  // store or volume. Then the folder is left as it is. An error, too, when there is a tail which
  // cannot be read. Reactor and files outlive the result.
  [[nodiscard]] static Task<Result<std::unique_ptr<VolumeLog>>> open(Reactor& reactor,
                                                                     FileSystem& files,
                                                                     Options options,
                                                                     tree::Namespace& tree);
  [[nodiscard]] static Task<Result<std::unique_ptr<VolumeLog>>> open(Reactor& reactor,
                                                                     FileSystem& files,
                                                                     Options options,
                                                                     LogReplay& into);
  VolumeLog(const VolumeLog&) = delete;
  VolumeLog& operator=(const VolumeLog&) = delete;

  // Takes the next record, in order, to be written by the next durable(). Its tree has it already,
  // so it is always taken: the leader executes no change while accepts() is false.
  void append(const tree::Record& record);
  // The same of a record's bytes, which are good.
  void append(std::uint64_t number, std::span<const std::byte> record);
  [[nodiscard]] bool accepts() const;
  // It accepts nothing before a checkpoint was written.
  [[nodiscard]] bool needsCheckpoint() const;
  // Waits until this record, which was appended, is durable. Calls that wait share their
  // writes: one of them writes a group of all that is pending, then one of the others. After an
  // error the record may be there or not, and stays to be written by the next call.
  [[nodiscard]] Task<Status> durable(std::uint64_t number);
  [[nodiscard]] std::uint64_t durableRecord() const { return durable_; }
  // The last record that a crash of the kernel leaves.
  [[nodiscard]] std::uint64_t syncedRecord() const { return synced_; }
  // Makes room on the disk for records to come, and writes those again of which a write failed;
  // does nothing while there is no need to.
  [[nodiscard]] Task<Status> reserve();
  // Why records that wait could not be written, or would not be.
  [[nodiscard]] Status writeError() const;
  // Why written records could not be synced; the log accepts nothing until a checkpoint has written
  // them anew.
  [[nodiscard]] const Status& syncError() const { return syncError_; }
  // Why the log has no tail although its options name one.
  [[nodiscard]] const Status& tailError() const { return tailError_; }

  // Writes a checkpoint of all that is durable by then, and removes what it replaces. Records may
  // be appended meanwhile. kInUse: one is being written.
  [[nodiscard]] Task<Status> checkpoint();
  [[nodiscard]] std::uint64_t checkpointedRecord() const { return checkpointed_; }
  [[nodiscard]] LogPosition checkpointed() const { return {checkpointEpoch_, checkpointed_}; }
  // Of the segments behind the last checkpoint.
  [[nodiscard]] std::uint64_t logBytes() const;

  // For readers of durable records (log_reader.h).
  struct SegmentView {
    std::string path;
    std::uint64_t firstRecord = 0;
    std::uint64_t bytes = 0;    // of durable groups, with the head
    std::uint64_t written = 0;  // of these, in the file
  };
  // The last segment that begins with this record or an earlier one. None: it has gone.
  [[nodiscard]] std::optional<SegmentView> segmentOf(std::uint64_t record) const;
  // A copy of the groups from `offset` on of the last segment, which begins with that record, when
  // the tail alone has them.
  [[nodiscard]] std::vector<std::byte> unwrittenFrom(std::uint64_t firstRecord,
                                                     std::uint64_t offset) const;
  // The file of that checkpoint; kNotFound: another one has replaced it.
  [[nodiscard]] Task<Result<std::unique_ptr<File>>> openCheckpoint(std::uint64_t record) const;
  [[nodiscard]] FileSystem& files() const { return files_; }
  [[nodiscard]] const Background& background() const { return background_; }

  // Writes what is in the tail alone, and syncs. Before a log of kWritten goes, when no other call
  // waits. After an error the next open() finds the tail.
  [[nodiscard]] Task<Status> close();

 private:
  struct Segment {
    std::string name;
    std::uint64_t firstRecord = 0;
    std::uint64_t bytes = 0;    // of groups, those in the tail alone with them
    std::uint64_t written = 0;  // of these, in the file
    std::uint64_t synced = 0;
  };
  struct Pending {
    std::uint64_t number = 0;
    tree::Bytes bytes;
  };
  struct Group {
    std::size_t records = 0, recordBytes = 0;
    std::vector<std::byte> bytes;
  };
  // Of the last segment's file by one coroutine.
  enum class Use : std::uint8_t {
    kNone,
    kTail,  // writes what the tail has, which takes groups meanwhile
    kAlone,
  };

  VolumeLog(Reactor& reactor, FileSystem& files, const Options& options)
      : helpers_{reactor},
        background_{reactor, options.background},
        files_(files),
        folder_(options.folder),
        identity_{options.tree.store, options.tree.volume, 0},
        durability_(options.durability),
        writeAfter_(options.writeAfter),
        tailPath_(options.durability == LogDurability::kWritten ? options.tail : std::string()),
        written_(reactor),
        writeDue_(reactor),
        closing_(reactor),
        syncing_(reactor) {}
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // volume_recovery.cc
  [[nodiscard]] Task<Status> recover(LogReplay& into);
  [[nodiscard]] Task<Status> loadCheckpoint(LogReplay& into);
  [[nodiscard]] Task<Status> replay(LogReplay& into, Segment& segment);
  [[nodiscard]] Task<Status> removeFiles(std::vector<std::string> names);
  [[nodiscard]] Task<Status> openTail();
  // Appends the records of the groups in the tail that follow a segment's.
  [[nodiscard]] Task<Status> recoverTail(LogReplay& into);
  [[nodiscard]] Task<Result<bool>> hasSameBytes(const Segment& segment, LogTail::Left left);

  // Begins to write, and ends; one coroutine at a time does.
  [[nodiscard]] Task<void> beginWriting(Use use = Use::kAlone);
  void endWriting(Status result);
  // Of what is pending.
  [[nodiscard]] Group nextGroup() const;
  void took(const Group& group);
  // Puts all that is pending into the tail, where it is durable. False: it does not fit, or there
  // is no tail, or the file is used alone.
  bool copyGroup();
  // Of what is pending, as one group, behind all groups of the tail.
  [[nodiscard]] Task<Status> writeGroup();
  // Writes those groups to the file that only the tail has.
  [[nodiscard]] Task<Status> writeTail();
  [[nodiscard]] Task<void> writeTailInBackground();
  [[nodiscard]] bool isAllWritten() const {
    return segments_.back().written == segments_.back().bytes;
  }
  // Not all that was executed could be written.
  [[nodiscard]] bool isStuck() const {
    return !lastWrite_.ok() && !(pending_.empty() && isAllWritten());
  }
  [[nodiscard]] Task<Status> beginSegment(std::uint64_t firstRecord);
  // The disk has room for one more record behind those that are pending.
  [[nodiscard]] bool hasRoom() const;
  // Behind the last segment's groups, while no other call writes.
  [[nodiscard]] Task<void> writeReserve();
  // Before another segment follows the last one.
  [[nodiscard]] Task<Status> cutReserve();

  // Of the last segment, as far as it is written by then.
  [[nodiscard]] Task<Status> syncWritten();
  void beginSync();
  [[nodiscard]] Task<void> syncInBackground();

  // volume_checkpoint.cc
  [[nodiscard]] Task<Status> replaceSegments();
  [[nodiscard]] Task<Status> mergeUpTo(std::uint64_t number, std::vector<std::string> segments);
  [[nodiscard]] Task<Result<tree::RecordsSince>> recordsIn(std::vector<std::string> segments);
  [[nodiscard]] Task<Status> writeMerged(File& into, tree::RecordsSince since);
  [[nodiscard]] static Task<Status> appendTo(File& into, std::span<const std::byte> bytes,
                                             std::uint64_t& at);

  const Background helpers_;
  const Background background_;
  FileSystem& files_;
  const std::string folder_;
  const SegmentHead identity_;
  const LogDurability durability_;
  const Clock::duration writeAfter_;
  const std::string tailPath_;
  std::unique_ptr<LogTail> tail_;  // null: none
  Status tailError_;
  std::vector<Segment> segments_;  // in order; the last one is `file_`
  std::shared_ptr<File> file_;
  std::deque<Pending> pending_;
  std::size_t pendingBytes_ = 0;
  std::uint64_t fileBytes_ = 0;  // of the last segment, with what is reserved
  Status reserveError_;
  std::uint64_t durable_ = 0;
  std::uint64_t inFile_ = 0;  // the last record there
  std::uint64_t synced_ = 0;
  Status syncError_;
  std::uint64_t checkpointed_ = 0;
  std::uint64_t checkpointEpoch_ = 0;  // of that record
  Use use_ = Use::kNone;
  bool checkpointing_ = false;
  Status lastWrite_;
  Event written_;  // reset while one writes
  bool tailWriteDue_ = false;
  Event writeDue_;
  bool syncDue_ = false;
  Event closing_;
  Gate syncing_;
};

}  // namespace hearth
