// The leader of a volume: executes changes in its tree, logs them, and answers when what it answers
// is durable and its lease still runs. Changes of many clients share one sync of the log.
//
// A change that fails with kUnavailable, kOutOfSpace or kIoError may have been executed: the client
// repeats it under its id, here or at the next leader, and gets the answer of the first. While the
// log cannot be written, changes are refused (Refusal::kLogFails) before they are executed. On one
// reactor's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "files/file_system.h"
#include "namespace/namespace.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "volume/change_message.h"
#include "volume/log_followers.h"
#include "volume/volume_eviction.h"
#include "volume/volume_log.h"

namespace hearth {

class VolumeLeader {
 public:
  struct Options {
    VolumeLog::Options log;
    std::uint64_t epoch = 0;  // that the store gave to this leader: Namespace::lead
    // True while the leader's lease runs; asked after each answer was computed (R9).
    std::function<bool()> leads;
    // Nanoseconds since the epoch of Unix, for the times of inodes.
    std::function<std::int64_t()> now;
    std::uint64_t checkpointFromBytes = VolumeLog::kCheckpointFromBytes;
    LogFollowers::Ports followers;
  };

  // Recovers the log and begins the term: its first record is durable. Errors of VolumeLog::open
  // and Namespace::lead, and those of writing. Reactor and files outlive the result.
  [[nodiscard]] static Task<Result<std::unique_ptr<VolumeLeader>>> begin(Reactor& reactor,
                                                                         FileSystem& files,
                                                                         Options options);
  VolumeLeader(const VolumeLeader&) = delete;
  VolumeLeader& operator=(const VolumeLeader&) = delete;

  // The caller has checked that the request's client is the one that it speaks with. The time of
  // the request is set here. Answers with a refusal below 16 were not executed. Where the volume is
  // full, files that nobody writes go first; while all are written it waits for one, kRoomWait at
  // most.
  [[nodiscard]] Task<Result<ChangeReply>> change(tree::Request request);
  [[nodiscard]] Task<Result<tree::Answer>> decide(tree::LeaderChange change);

  // The value of `ask(tree)`, when every record that it may have seen is durable: the end of a
  // session alone changes no name, attribute or content. A pointer into the tree may be dead by
  // then.
  template <class Ask, class Value = std::invoke_result_t<Ask, const tree::Namespace&>>
  [[nodiscard]] Task<Result<Value>> query(Ask ask) {
    static_assert(!std::is_pointer_v<Value> && !std::is_reference_v<Value>);
    Value value = ask(static_cast<const tree::Namespace&>(tree_));
    const Status settled = co_await settle(lastVisible_, false);
    if (!settled.ok()) co_return settled.error();
    co_return std::move(value);
  }

  // A file was opened for reading.
  void used(tree::InodeId file) { eviction_.used(file); }
  struct Evictions {
    std::uint64_t files = 0;
    std::uint64_t youngFiles = 0;  // of these: changed less than kYoung before
  };
  // A volume that evicts these is too small for what writes into it.
  static constexpr std::chrono::hours kYoung{1};
  // Since the term began.
  [[nodiscard]] const Evictions& evictions() const { return evictions_; }
  // Longer than it takes an agent to seal a file that was just closed.
  static constexpr Clock::duration kRoomWait = std::chrono::seconds(1);

  // The last record that no loss of a node undoes.
  [[nodiscard]] std::uint64_t committedRecord() const {
    return std::min(log_->durableRecord(), followers_->committed());
  }
  [[nodiscard]] LogFollowers& followers() const { return *followers_; }

  // An orderly end waits so long for the followers.
  static constexpr Clock::duration kDrainTime = std::chrono::seconds(3);
  // Refuses all that comes, waits for followers and for a checkpoint that runs, and syncs the log.
  // Once, before it goes, when no call waits any more.
  [[nodiscard]] Task<Status> close();

  // The tree with all executed changes, durable or not: for the leader's own decisions.
  [[nodiscard]] const tree::Namespace& executed() const { return tree_; }

  [[nodiscard]] const VolumeLog& log() const { return *log_; }
  // The error of the last checkpoint, if it failed: the log grows meanwhile, and changes are
  // refused when it is full.
  [[nodiscard]] const Status& checkpointError() const { return checkpointed_; }

 private:
  VolumeLeader(Reactor& reactor, Options options)
      : reactor_(reactor),
        options_(std::move(options)),
        tree_(options_.log.tree),
        eviction_(tree_),
        checkpointAt_(options_.checkpointFromBytes),
        running_(reactor) {}
  // Until the record is durable and the followers let a change, or else a query, be answered; then
  // whether the leader may still answer.
  [[nodiscard]] Task<Status> settle(std::uint64_t record, bool change);
  // Logs the outcome; the answer when it is durable.
  [[nodiscard]] Task<Result<ChangeReply>> finish(tree::Namespace::Outcome outcome, bool endsOnly);
  // Before a change is executed. A refusal where the log cannot be written.
  [[nodiscard]] Task<Result<tree::Answer>> admit();
  [[nodiscard]] Status mayLead() const;
  // Until the change fits, or no file may go.
  [[nodiscard]] Task<Status> makeRoom(const tree::ClientChange& change);
  // True: the file has gone.
  [[nodiscard]] bool evict(tree::InodeId file);
  // Executed; to be made durable.
  void append(const tree::Namespace::Outcome& outcome);
  void beginCheckpoint();
  [[nodiscard]] Task<void> runCheckpoint();

  Reactor& reactor_;
  const Options options_;
  tree::Namespace tree_;
  VolumeEviction eviction_;
  Evictions evictions_;
  std::unique_ptr<VolumeLog> log_;
  std::unique_ptr<LogFollowers> followers_;  // none before the term's first record is durable
  std::uint64_t lastVisible_ = 0;            // record
  bool checkpointing_ = false;
  std::uint64_t checkpointAt_ = 0;  // bytes of log
  Status checkpointed_;
  Gate running_;
};

}  // namespace hearth
