// The reads that a mount's agent answers: at once from memory, or parked until the source has the
// bytes. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/clock.h"
#include "fuse/fuse_device.h"
#include "fuse/fuse_statistics.h"
#include "fuse/mount_source.h"
#include "fuse/parked_reads.h"
#include "fuse/read_ahead.h"

namespace hearth {

// State shared by the reads of one file.
struct FuseReading {
  std::shared_ptr<MountSource::OpenFile> file;
  std::uint64_t size = 0;
  std::mutex mutex;  // of readAhead
  ReadAhead readAhead;
};

class FuseReads {
 public:
  // Device and counters outlive this object.
  FuseReads(FuseDevice& device, FuseCounters& counters, ReadAheadOptions readAhead,
            std::size_t maxParked)
      : device_(device), counters_(counters), readAhead_(readAhead), parked_(maxParked) {}

  struct Request {
    std::uint64_t unique = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    // Keeps this object while it lives; a read that never ends does not keep it.
    std::weak_ptr<const void> owner;
    // Called with the reason when the application gets an error; may be called after the owner has
    // gone only by the call that is answered then.
    std::function<void(const Error&)> failed;
  };
  // Gives reads a deadline, which endOverdue() keeps: before anything else is done with a read that
  // has come for `node`. False: it was answered with ETIMEDOUT, because another read of the node
  // was a moment ago. The kernel asks again for the page of a read ahead that failed, so a program
  // would wait twice. Either all reads of this object are begun or none.
  [[nodiscard]] bool begin(std::uint64_t unique, std::uint64_t node, Clock::time_point now);
  // Answers ETIMEDOUT to reads that began before `limit`; what is brought for them later is
  // dropped.
  void endOverdue(Clock::time_point limit, Clock::time_point now);
  // Reads that were answered so.
  [[nodiscard]] std::uint64_t overdue() const { return overdue_; }
  // Answers the read now or later, by whoever brings the bytes.
  void read(const Request& request, const std::shared_ptr<FuseReading>& reading);
  // Bytes that the caller has read; none at the end of the file.
  void reply(const Request& request, std::span<const std::byte> bytes);
  // Answers a read whose file cannot be opened.
  void fail(const Request& request, const Error& reason);
  // A signal for a read. False: no parked read has this number.
  bool interrupt(std::uint64_t unique);
  // See FuseDispatcher::close(). `resent`: the kernel sends again what is left unanswered.
  void close(std::chrono::milliseconds limit, bool resent);
  // Later reads that find parking closed stay unanswered, for the next agent.
  void leaveLate() { leavesLate_ = true; }

 private:
  void readWhenThere(const Request& request, std::shared_ptr<MountSource::OpenFile> file);
  void answer(const Request& request, const Result<MappedBytes>& bytes);
  // The read is to be answered. False: endOverdue() has done it.
  [[nodiscard]] bool take(std::uint64_t unique);

  struct Begun {
    std::uint64_t node = 0;
    Clock::time_point at;
  };

  FuseDevice& device_;
  FuseCounters& counters_;
  const ReadAheadOptions readAhead_;
  std::atomic<bool> leavesLate_{false};
  std::atomic<bool> limited_{false};  // reads are begun
  std::atomic<std::uint64_t> overdue_{0};
  std::mutex mutex_;  // of what follows; held for no other lock
  std::unordered_map<std::uint64_t, Begun> begun_;
  std::unordered_map<std::uint64_t, Clock::time_point> lateNodes_;  // refused until then
  ParkedReads parked_;
};

}  // namespace hearth
