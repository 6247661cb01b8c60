// Finds out that a disk hangs: calls of one kind are under way and none of them ends. Each disk has
// threads of its own for calls that block, so that a disk that hangs takes none from the others.
//
// A sync waits for all that is being written, and a change of a folder may wait for a sync: on a
// disk of limited speed that takes seconds. So while writes or syncs end, no change counts as
// hanging before kLongestChange.
//
// Once a disk hangs, nobody waits for it: WatchedFileSystem gives up the waits for calls under way
// and refuses further ones. The calls themselves end when the kernel lets them. Only after that a
// new call may be tried, so that no late call undoes the work of one that came after it.
//
// A stall of reads, or of opens to read, stops all use of the disk. A stall of other calls stops
// changes alone, and what is on the disk is read. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/thread_pool.h"

namespace hearth {

enum class DiskOperation : std::uint8_t {
  kOpenToRead,
  kRead,
  kOpenToWrite,
  kWrite,
  kSync,
  kTruncate,
  kInfo,
  kRename,
  kLink,
  kUnlink,
  kMakeDirectory,
  kChangeMode,
  kSyncDirectory,
  kList,
  kSpace,
};
inline constexpr std::size_t kDiskOperations = 15;

class DiskWatch {
 public:
  // How often a wait for a call looks whether the disk hangs.
  static constexpr Clock::duration kLook = std::chrono::milliseconds(100);
  // A reader waits no longer for a disk, and has a second to get the bytes from elsewhere.
  static constexpr Clock::duration kStall = std::chrono::milliseconds(1500);
  // The disk hangs when no change of a kind has ended for so long, whatever else ends.
  static constexpr Clock::duration kLongestChange = std::chrono::seconds(15);

  // `path`: a folder with all files of the disk that are watched. `threads`: at most so many for
  // calls that block.
  DiskWatch(std::string path, std::size_t threads);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] ThreadPool& threads() { return threads_; }
  // The disk hangs when no call of a kind has ended for so long, and no write; kStall at first.
  void setStall(Clock::duration stall);
  // `hung`: called when the disk begins to hang, on the thread that finds it out, until it is
  // replaced. It must not call this object.
  void setObserver(std::function<void()> hung);

  // Reads and opens to read are refused; other calls are.
  [[nodiscard]] bool readsHang() const { return readsHang_.load(std::memory_order_acquire); }
  [[nodiscard]] bool changesHang() const {
    return readsHang() || changesHang_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool refuses(DiskOperation operation) const {
    return isRead(operation) ? readsHang() : changesHang();
  }
  // kUnavailable, with the kind of call that hangs.
  [[nodiscard]] Error error() const;

  // A call under way, from its construction to its destruction on any thread.
  class Call {
   public:
    Call(Call&& other) noexcept
        : watch_(std::exchange(other.watch_, nullptr)),
          operation_(other.operation_),
          place_(other.place_) {}
    Call& operator=(Call&&) = delete;
    ~Call() {
      if (watch_ != nullptr) watch_->end(operation_, place_);
    }

   private:
    friend DiskWatch;
    using Place = std::list<Clock::time_point>::iterator;
    Call(DiskWatch& watch, DiskOperation operation, Place place)
        : watch_(&watch), operation_(operation), place_(place) {}
    DiskWatch* watch_;
    DiskOperation operation_;
    Place place_;
  };
  // Nothing: the disk hangs, and the call is not to be made. `trial`: it is made all the same.
  [[nodiscard]] std::optional<Call> begin(DiskOperation operation, bool trial = false);

  // While a call is waited for, at least every kLook: counts for how long nothing has ended.
  void look();

  // No call is under way, so that a trial may begin: true for one caller until it calls endTrial().
  // `works`: all calls of the trial have ended, whatever came of them, and the disk does not hang.
  [[nodiscard]] bool beginTrial();
  void endTrial(bool works);
  // No call is under way.
  [[nodiscard]] bool isIdle() const;

 private:
  // Calls of one kind.
  struct Kind {
    std::list<Clock::time_point> begun;  // of those under way, the first one first
    Clock::duration stalled{};           // for so long none has ended
    Clock::duration still{};             // and, where it is a change, no write or sync either
  };
  [[nodiscard]] static bool isRead(DiskOperation operation) {
    return operation == DiskOperation::kOpenToRead || operation == DiskOperation::kRead;
  }
  [[nodiscard]] static bool showsWriting(DiskOperation operation) {
    return operation == DiskOperation::kWrite || operation == DiskOperation::kSync ||
           operation == DiskOperation::kSyncDirectory;
  }
  void end(DiskOperation operation, Call::Place place);
  [[nodiscard]] bool isIdleLocked() const;

  const std::string path_;
  std::atomic<bool> readsHang_{false};
  std::atomic<bool> changesHang_{false};
  mutable std::mutex mutex_;  // guards all below but threads_
  Clock::duration stall_ = kStall;
  Clock::time_point lookedAt_ = Clock::now();
  std::array<Kind, kDiskOperations> kinds_;
  std::string hanging_;  // the kind of call that hangs first
  bool trying_ = false;
  std::function<void()> hung_;
  ThreadPool threads_;
};

}  // namespace hearth
