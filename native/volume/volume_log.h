// The log of a volume on its leader's node, in a folder of its own: segments of records
// (log_segment.h), and the checkpoint before them.
//
//   log-NUMBER         records from that number on; the last one is appended to
//   checkpoint-NUMBER  the tree as of that record (namespace/checkpoint.h)
//
// A crash at any instant loses no record that was durable, and brings none back that was cut off.
// Used on one reactor's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "namespace/namespace.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "volume/log_segment.h"

namespace hearth {

class VolumeLog {
 public:
  // The leader begins a checkpoint when so much was logged since the last one, and lets changes
  // wait when so much was.
  static constexpr std::uint64_t kCheckpointFromBytes = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
  // Records that are not durable yet.
  static constexpr std::size_t kMostPendingBytes = std::size_t{32} << 20;

  // Opens or begins the log in `folder`, which exists and is used by nobody else, and brings
  // `tree`, which is empty, to its last record. Files that a crash left behind are removed.
  // kCorrupt: bits have rotted; kUnsupported: a later release wrote it; kConflict: it is of another
  // store or volume. Then the folder is left as it is. Reactor and files outlive the result.
  [[nodiscard]] static Task<Result<std::unique_ptr<VolumeLog>>> open(Reactor& reactor,
                                                                     FileSystem& files,
                                                                     std::string folder,
                                                                     tree::NamespaceOptions options,
                                                                     tree::Namespace& tree);
  VolumeLog(const VolumeLog&) = delete;
  VolumeLog& operator=(const VolumeLog&) = delete;

  // Takes the next record, in order, to be written by the next durable(). Its tree has it already,
  // so it is always taken: the leader executes no change while accepts() is false.
  void append(const tree::Record& record);
  [[nodiscard]] bool accepts() const;
  // Waits until this record, which was appended, is on the disk. Calls that wait share their
  // writes: one of them writes a group of all that is pending, then one of the others. After an
  // error the record may be there or not, and stays to be written by the next call.
  [[nodiscard]] Task<Status> durable(std::uint64_t number);
  [[nodiscard]] std::uint64_t durableRecord() const { return durable_; }

  // Writes a checkpoint of all that is durable by then, and removes what it replaces. Records may
  // be appended meanwhile. kInUse: one is being written.
  [[nodiscard]] Task<Status> checkpoint();
  [[nodiscard]] std::uint64_t checkpointedRecord() const { return checkpointed_; }
  // Of the segments behind the last checkpoint.
  [[nodiscard]] std::uint64_t logBytes() const;

 private:
  struct Segment {
    std::string name;
    std::uint64_t firstRecord = 0;
    std::uint64_t bytes = 0;
  };
  struct Pending {
    std::uint64_t number = 0;
    tree::Bytes bytes;
  };

  VolumeLog(Reactor& reactor, FileSystem& files, std::string folder, SegmentHead identity)
      : files_(files), folder_(std::move(folder)), identity_(identity), written_(reactor) {}
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // volume_recovery.cc
  [[nodiscard]] Task<Status> recover(tree::Namespace& tree);
  [[nodiscard]] Task<Status> loadCheckpoint(tree::Namespace& tree);
  [[nodiscard]] Task<Status> replay(tree::Namespace& tree, Segment& segment);
  [[nodiscard]] Task<Status> removeFiles(std::vector<std::string> names);

  // Begins to write, and ends; one coroutine at a time does.
  [[nodiscard]] Task<void> beginWriting();
  void endWriting(Status result);
  // Of what is pending, as one group.
  [[nodiscard]] Task<Status> writeGroup();
  [[nodiscard]] Task<Status> beginSegment(std::uint64_t firstRecord);

  // volume_checkpoint.cc
  [[nodiscard]] Task<Status> mergeUpTo(std::uint64_t number, std::vector<std::string> segments);
  [[nodiscard]] Task<Result<tree::RecordsSince>> recordsIn(std::vector<std::string> segments);
  [[nodiscard]] Task<Status> writeMerged(File& into, tree::RecordsSince since);

  FileSystem& files_;
  const std::string folder_;
  const SegmentHead identity_;
  std::vector<Segment> segments_;  // in order; the last one is `file_`
  std::unique_ptr<File> file_;
  std::deque<Pending> pending_;
  std::size_t pendingBytes_ = 0;
  std::uint64_t durable_ = 0;
  std::uint64_t checkpointed_ = 0;
  bool writing_ = false;
  bool checkpointing_ = false;
  Status lastWrite_;
  Event written_;  // reset while one writes
};

}  // namespace hearth
