// A follower's side of one volume: takes the records that the leader sends into a log of its own,
// in the folder in which this agent would lead, and says where that log ends. It keeps no tree.
//
// The log of a follower is a beginning of its leader's: it takes records behind its own last one
// alone, and begins anew with a checkpoint. Records that it has confirmed survive its process, as a
// leader's do. One call at a time, on the log's reactor thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "files/file_system.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "volume/follower_message.h"
#include "volume/volume_log.h"

namespace hearth {

class FollowerLog {
 public:
  // Both outlive the result, which opens the folder when it is first asked.
  FollowerLog(Reactor& reactor, FileSystem& files, VolumeLog::Options options)
      : reactor_(reactor), files_(files), options_(std::move(options)) {}
  FollowerLog(const FollowerLog&) = delete;
  FollowerLog& operator=(const FollowerLog&) = delete;

  // Errors of all three: those of VolumeLog::open and of writing; after one the log is opened anew.
  // A log that is not there ends at position 0.
  [[nodiscard]] Task<Result<FollowerReply>> state(LogStateMessage message);
  // kCorrupt: the records are damaged, have a gap or are of a later epoch than the message.
  [[nodiscard]] Task<Result<FollowerReply>> append(LogAppendMessage message);
  // kCorrupt: all pieces are there and give no checkpoint of that position.
  [[nodiscard]] Task<Result<FollowerReply>> install(LogInstallMessage message);

  // Syncs and closes the log, so that this agent may lead, or remove it. The next call opens it.
  [[nodiscard]] Task<Status> close();

 private:
  struct Installation {
    LogPosition checkpoint;
    std::uint64_t size = 0;
    std::uint64_t bytes = 0;  // that are there
    std::unique_ptr<File> file;
    tree::CheckpointReader reader;
  };

  [[nodiscard]] Task<Status> open();
  [[nodiscard]] Task<Status> write(std::vector<std::span<const std::byte>> records,
                                   LogPosition last);
  // Until it accepts records, if it can.
  [[nodiscard]] Task<Status> admit();
  [[nodiscard]] Task<void> checkpoint();
  [[nodiscard]] Task<Status> beginInstallation(const LogInstallMessage& message);
  [[nodiscard]] Task<Status> installPiece(std::vector<std::byte> piece);
  [[nodiscard]] Task<Status> finishInstallation();
  [[nodiscard]] FollowerReply reply(LogOutcome outcome) const;
  [[nodiscard]] std::string asideOf(LogPosition checkpoint) const;

  Reactor& reactor_;
  FileSystem& files_;
  const VolumeLog::Options options_;
  std::uint64_t epoch_ = 0;  // the lowest that it takes
  std::unique_ptr<VolumeLog> log_;
  std::unique_ptr<Gate> checkpoints_;  // of log_
  Status checkpointed_;
  bool checkpointing_ = false;
  LogPosition last_;
  std::unique_ptr<Installation> installing_;
};

}  // namespace hearth
