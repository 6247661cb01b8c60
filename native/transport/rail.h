// One way to a peer on which bytes move: a TCP connection, in tests a channel of this process.
// Those who bring a kind of transport implement Rail; rail_mover.h gives each slice of a read or a
// write to one. How a rail is set up (addresses, proofs, features) is not part of it. On one
// reactor's thread.
//
// Whose memory is it? From post() on, the memory of a request belongs to its RailWork, and the rail
// may write into it, or for a write read from it, for as long as that lives. A rail settles the
// work when it knows how the request ended, and destroys it when it touches the memory no more,
// which after a failure may be later: an answer that is no longer wanted may still be arriving. So
// no request can be lost, as work that is destroyed is settled, and no memory can be given back too
// early, as the work keeps its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "wire/frame.h"

namespace hearth {

// How a request ended. `answered`: the other side answered with this status; false: the rail, the
// checksums or the time failed, and another rail may do better.
struct Outcome {
  Status status;
  bool answered = false;
  // It failed, and what failed was neither the time nor the memory.
  [[nodiscard]] bool retryable() const {
    return !status.ok() && !answered && status.code() != ErrorCode::kDeadlineExceeded &&
           status.code() != ErrorCode::kCancelled && status.code() != ErrorCode::kInvalidArgument;
  }
};

enum class Direction : std::uint8_t {
  kRead,   // from the other side into our memory
  kWrite,  // from our memory to the other side
};

// A part of a read or a write that goes over one rail.
struct RailTransfer {
  ContentKey key;
  std::uint64_t offset = 0;  // on a block
  MemoryVector memory;       // a write's stays as it is until it is released
  RequestTimeouts timeouts;
  RequestClass requestClass = RequestClass::kDemand;
  Direction direction = Direction::kRead;
  // Of a write. Which of two to the same range is newer; with the same generation the bytes are the
  // same, so that a write may be sent again (write_order.h).
  std::uint64_t generation = 0;
  // Of a write: memory of the other side, if it gave any, whose beginning these bytes are for.
  std::optional<MemoryDescriptor> target = std::nullopt;
};

// A transfer as who posts it sees it. It is made with its work: `RailRequest::create`.
class RailWork;
class RailRequest {
 public:
  struct Posted;
  // `reactor` must remain live while the request or its work is used.
  [[nodiscard]] static Posted create(Reactor& reactor, RailTransfer transfer);
  RailRequest(Reactor& reactor, RailTransfer transfer);
  RailRequest(const RailRequest&) = delete;
  RailRequest& operator=(const RailRequest&) = delete;

  [[nodiscard]] const RailTransfer& transfer() const { return transfer_; }
  // Ends when the rail has said how it ended, or with false at the deadline.
  [[nodiscard]] Task<bool> awaitSettled(Clock::time_point deadline);
  // The same for its memory: afterwards only the caller uses it.
  [[nodiscard]] Task<bool> awaitReleased(Clock::time_point deadline);
  // It is not waited for any more: it is settled with kCancelled now, unless it has been. True: its
  // memory is free; false: the rail still holds it, until awaitReleased() ends. The other side may
  // have taken a write that is cancelled, as one of which no answer came.
  bool cancel();

  [[nodiscard]] bool settled() const { return settled_.isSet(); }
  [[nodiscard]] bool released() const { return released_.isSet(); }
  // Once it is settled. With success `checksums` has the CRC32C of each of its blocks. All of a
  // read's memory has the bytes of which these are; of a write the other side has taken them.
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }
  [[nodiscard]] std::span<const std::uint32_t> checksums() const { return checksums_; }

 private:
  friend RailWork;
  const RailTransfer transfer_;
  Outcome outcome_;
  std::vector<std::uint32_t> checksums_;
  bool cancelled_ = false;
  std::function<void()> onCancel_;
  Event settled_, released_;
};

// The same transfer as its rail has it.
class RailWork {
 public:
  explicit RailWork(std::shared_ptr<RailRequest> request);
  // What was not settled is settled with kUnavailable.
  ~RailWork();
  RailWork(const RailWork&) = delete;
  RailWork& operator=(const RailWork&) = delete;

  [[nodiscard]] const RailTransfer& transfer() const { return request_->transfer_; }
  // One place for each block.
  [[nodiscard]] std::span<std::uint32_t> checksums() { return request_->checksums_; }
  [[nodiscard]] bool settled() const { return request_->settled(); }
  // The first time counts.
  void settle(Outcome outcome);
  // No caller waits for it any more. `then` is called when that comes to pass, at most once, and
  // may destroy the work; an empty one takes it back.
  [[nodiscard]] bool cancelled() const { return request_->cancelled_; }
  void onCancel(std::function<void()> then) { request_->onCancel_ = std::move(then); }

 private:
  std::shared_ptr<RailRequest> request_;
};

struct RailRequest::Posted {
  std::shared_ptr<RailRequest> request;
  std::unique_ptr<RailWork> work;
};

class Rail {
 public:
  virtual ~Rail() = default;
  // Takes all of them and settles each by itself, in any order, by its deadline; it
  // never fails as a whole. A rail that has ended settles them at once; one that does not reach the
  // memory of one, or whose
  // other side takes no writes, settles that with kUnsupported, not answered.
  virtual void post(std::vector<std::unique_ptr<RailWork>> batch) = 0;
  // It takes requests.
  [[nodiscard]] virtual bool usable() const = 0;
  // Something is asked for on it, and for kHedgeAfter not one byte has come, or of a write was
  // taken, not even in answer to a probe, which this sends before. Until a byte comes it is given
  // nothing while another rail is usable, and what it has goes there.
  [[nodiscard]] virtual bool paused() = 0;
  // It can move these bytes: what posts them elsewhere asks before.
  [[nodiscard]] virtual bool reaches(const RailTransfer& /*transfer*/) const { return true; }
  // Bytes that were posted and are not settled.
  [[nodiscard]] virtual std::uint64_t load() const = 0;
  // That it moves while it has enough to do, as measured lately; 0: not known.
  [[nodiscard]] virtual double bytesPerSecond() const { return 0; }
};

// The rails of one peer.
class RailSource {
 public:
  virtual ~RailSource() = default;
  // The peer's name, for messages.
  [[nodiscard]] virtual const std::string& peer() const = 0;
  // The usable rail with the least to do, not a paused one and other than `avoid` where there is
  // one; waits for the
  // first when none is usable yet. Errors: kUnavailable when there is none, kDeadlineExceeded.
  [[nodiscard]] virtual Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                                 RequestTimeouts timeouts) = 0;
  // Those for a transfer of `bytes` that are usable now; sets up what is missing. What is small may
  // have one on which nothing large goes.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Rail>> usableRails(std::size_t bytes) = 0;
  // Those that are preferred to all of these for what they reach, and are usable now; sets up what
  // is missing.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Rail>> fastRails() { return {}; }
  // A slice is moved from a paused rail to another one.
  virtual void countHedged() = 0;
};

}  // namespace hearth
