// Answers to the requests that wait for a volume: each is answered once, by this agent or, after
// close(), by the next one. A request whose call takes longer than the volume's deadline is
// answered without it; the call goes on, and what it would answer then is not delivered.
//
// The kernel holds a folder's lock while a request for one of its names waits, so programs that
// come to the same folder would wait one after the other, each for the deadline. So when a request
// has ended at the deadline, others like it end at once while its call goes on, and requests for
// names and attributes have a moment, until one of their opcode is answered. Any thread.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/clock.h"
#include "fuse/fuse_device.h"

namespace hearth {

class VolumeAnswers {
 public:
  static constexpr std::size_t kMaxPending = 1024;
  // Of calls that go on without their request.
  static constexpr std::size_t kMaxOverdue = 1024;

  // Of a request for a name after another request has ended at the deadline.
  static constexpr Clock::duration kMoment = std::chrono::milliseconds(50);

  enum class Begun {
    kYes,
    // The kernel has sent a request again that is being worked on: the answer to that is its own.
    kAgain,
    // Answered: with ETIMEDOUT, as one like it has ended at the deadline and its call goes on, or
    // with EIO, as too many such calls go on.
    kRefused,
    kClosed,  // the request is for the next agent
  };

  // `device` outlives this object.
  explicit VolumeAnswers(FuseDevice& device) : device_(device) {}

  // Fewer than kMaxPending requests wait. The others stay with the kernel: each belongs to a thread
  // of a program, and each that waits here ends by the volume's deadline.
  [[nodiscard]] bool accepts() const;
  // Before a request for `node` is worked on.
  [[nodiscard]] Begun begin(std::uint64_t unique, std::uint32_t opcode, std::uint64_t node);
  // Answers ETIMEDOUT to those that are older than their time, unless `lastProgress` of their node
  // is younger than `deadline`.
  void endOverdue(Clock::time_point now, Clock::duration deadline,
                  const std::function<Clock::time_point(std::uint64_t node)>& lastProgress);

  // True: the kernel has the answer. An errno of 0 is an answer without a body.
  bool reply(std::uint64_t unique, std::span<const std::byte> body);
  bool replyErrno(std::uint64_t unique, int error);
  template <class T>
  bool replyWith(std::uint64_t unique, const T& body) {
    return reply(unique, std::as_bytes(std::span(&body, 1)));
  }

  // Waits until nothing is pending or `limit` is over. Answers EIO to the rest, unless `leave`.
  // Later replies write nothing.
  void close(std::chrono::milliseconds limit, bool leave);
  // Requests that are not answered are the next agent's.
  [[nodiscard]] bool left() const;
  // Requests that were answered without their call, so far.
  [[nodiscard]] std::uint64_t overdue() const;

 private:
  struct Pending {
    std::uint64_t unique = 0;  // as the kernel has sent it last
    std::uint32_t opcode = 0;
    std::uint64_t node = 0;
    Clock::time_point begun;
  };
  // Of the requests of one opcode.
  struct Kind {
    enum class State { kAnswered, kSuspect, kStalled };
    State state = State::kAnswered;
    std::uint32_t calls = 0;  // that go on
  };
  // These with the lock.
  [[nodiscard]] Kind& kindOf(std::uint32_t opcode) { return kinds_[opcode % kinds_.size()]; }
  void stall(Kind& kind);
  // The request's call has ended with this errno. The unique to answer with; 0: it is answered.
  [[nodiscard]] std::uint64_t take(std::uint64_t unique, int error);

  FuseDevice& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint64_t, Pending> pending_;  // by the kernel's number of the request
  // Opcodes of those that were answered while their calls go on.
  std::unordered_map<std::uint64_t, std::uint32_t> late_;
  std::array<Kind, 64> kinds_;
  std::uint64_t overdue_ = 0;
  bool closed_ = false;
  bool left_ = false;
};

}  // namespace hearth
