// A way to a peer on which bytes move: a TCP connection, in tests a channel of this process. Each
// kind of transport implements Rail; rail_mover.h gives each slice of a read or a write to one
// rail. The setup of a rail (addresses, proofs, features) is not part of it. On one reactor's
// thread.
//
// Ownership of memory: from post() on, the memory of a request belongs to its RailWork, and the
// rail may write into it, or for a write read from it, for as long as the work lives. A rail
// settles the work when it knows how the request ended, and destroys the work when it touches the
// memory no more, which after a failure may be later: an unwanted answer may still be arriving. So
// no request can be lost, as destroying the work settles it, and no memory can be given back too
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

// The end of a request. `answered`: the other side answered with this status; false: the rail, the
// checksums or the time failed, and another rail may do better.
struct Outcome {
  Status status;
  bool answered = false;
  // True: the request failed, but not by its time, a cancel or its memory.
  [[nodiscard]] bool retryable() const {
    return !status.ok() && !answered && status.code() != ErrorCode::kDeadlineExceeded &&
           status.code() != ErrorCode::kCancelled && status.code() != ErrorCode::kInvalidArgument;
  }
};

enum class Direction : std::uint8_t {
  kRead,   // from the other side into our memory
  kWrite,  // from our memory to the other side
};

// The part of a read or a write that goes over one rail.
struct RailTransfer {
  ContentKey key;
  std::uint64_t offset = 0;  // on a block
  MemoryVector memory;       // a write's must not change until it is released
  RequestTimeouts timeouts;
  RequestClass requestClass = RequestClass::kDemand;
  Direction direction = Direction::kRead;
  // Of a write: orders writes to the same range. With the same generation the bytes are the same,
  // so that a write may be sent again (write_order.h).
  std::uint64_t generation = 0;
  // Of a write: memory of the other side, if it gave any, whose beginning these bytes fill.
  std::optional<MemoryDescriptor> target = std::nullopt;
};

// A transfer as its poster sees it. Created together with its work: `RailRequest::create`.
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
  // Waits until the rail has settled the request. False: the deadline came first.
  [[nodiscard]] Task<bool> awaitSettled(Clock::time_point deadline);
  // The same for its memory: afterwards only the caller uses it.
  [[nodiscard]] Task<bool> awaitReleased(Clock::time_point deadline);
  // Settles the request with kCancelled now, unless it has been settled. True: its memory is free;
  // false: the rail still holds the memory, until awaitReleased() ends. The other side may have
  // taken a cancelled write, as it may one without an answer.
  bool cancel();

  [[nodiscard]] bool settled() const { return settled_.isSet(); }
  [[nodiscard]] bool released() const { return released_.isSet(); }
  // Valid once the request is settled. On success `checksums` has the CRC32C of each block: a
  // read's memory has those bytes, and the other side has taken a write's.
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

// The same transfer as its rail sees it.
class RailWork {
 public:
  explicit RailWork(std::shared_ptr<RailRequest> request);
  // Settles an unsettled request with kUnavailable.
  ~RailWork();
  RailWork(const RailWork&) = delete;
  RailWork& operator=(const RailWork&) = delete;

  [[nodiscard]] const RailTransfer& transfer() const { return request_->transfer_; }
  // One element for each block.
  [[nodiscard]] std::span<std::uint32_t> checksums() { return request_->checksums_; }
  [[nodiscard]] bool settled() const { return request_->settled(); }
  // Only the first call counts.
  void settle(Outcome outcome);
  // True: no caller waits for the request any more. onCancel(): `then` is called at most once, when
  // the request is cancelled, and may destroy the work; an empty function removes it.
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
  // Takes all requests and settles each by itself, in any order, by its deadline; post() never
  // fails as a whole. A rail that has ended settles them at once. A rail that does not reach the
  // memory of one, or whose other side takes no writes, settles that one with kUnsupported, not
  // answered.
  virtual void post(std::vector<std::unique_ptr<RailWork>> batch) = 0;
  // True: the rail takes requests.
  [[nodiscard]] virtual bool usable() const = 0;
  // True: requests are out on the rail, and for kHedgeAfter not one byte has come, nor was one of a
  // write taken, not even in answer to a probe, which paused() sends before. Until a byte comes the
  // rail is given nothing while another rail is usable, and its requests go there.
  [[nodiscard]] virtual bool paused() = 0;
  // True: the rail can move these bytes. Callers that could post them elsewhere ask before.
  [[nodiscard]] virtual bool reaches(const RailTransfer& /*transfer*/) const { return true; }
  // Bytes posted and not settled yet.
  [[nodiscard]] virtual std::uint64_t load() const = 0;
  // Bytes a second that the rail moves while it is busy, as measured lately; 0: not known.
  [[nodiscard]] virtual double bytesPerSecond() const { return 0; }
};

// The rails of one peer.
class RailSource {
 public:
  virtual ~RailSource() = default;
  // The peer's name, for messages.
  [[nodiscard]] virtual const std::string& peer() const = 0;
  // The usable rail with the least to do, preferably not paused and other than `avoid`; waits for
  // the first when none is usable yet. Errors: kUnavailable when there is none, kDeadlineExceeded.
  [[nodiscard]] virtual Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                                 RequestTimeouts timeouts) = 0;
  // The rails for a transfer of `bytes` that are usable now; sets up missing ones. Small transfers
  // may have a rail that nothing large uses.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Rail>> usableRails(std::size_t bytes) = 0;
  // The usable rails that come before all of these for memory that they reach; sets up missing
  // ones.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Rail>> fastRails() { return {}; }
  // A slice moves from a paused rail to another one.
  virtual void countHedged() = 0;
};

}  // namespace hearth
