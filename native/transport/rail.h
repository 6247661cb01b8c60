// One way to a peer on which bytes move: a TCP connection, in tests a channel of this process.
// Those who bring a kind of transport implement Rail; rail_reader.h gives each slice of a read to
// one. How a rail is set up (addresses, proofs, features) is not part of it. On one reactor's
// thread.
//
// Whose memory is it? From post() on, the memory of a request belongs to its RailWork, and the rail
// may write into it for as long as that lives. A rail settles the work when it knows how the
// request ended, and destroys it when it touches the memory no more, which after a failure may be
// later: an answer that is no longer wanted may still be arriving. So no request can be lost, as
// work that is destroyed is settled, and no memory can be given back too early, as the work keeps
// its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
};

// A part of a read that goes over one rail.
struct RailRead {
  ContentKey key;
  std::uint64_t offset = 0;  // on a block
  MemoryVector into;
  Patience patience;
  RequestClass requestClass = RequestClass::kDemand;
};

// A read as who posts it sees it. It is made with its work: `RailRequest::create`.
class RailWork;
class RailRequest {
 public:
  struct Posted;
  [[nodiscard]] static Posted create(Reactor& reactor, RailRead read);
  RailRequest(Reactor& reactor, RailRead read);
  RailRequest(const RailRequest&) = delete;
  RailRequest& operator=(const RailRequest&) = delete;

  [[nodiscard]] const RailRead& read() const { return read_; }
  // Ends when the rail has said how it ended, or with false at the deadline.
  [[nodiscard]] Task<bool> awaitSettled(Clock::time_point deadline);
  // The same for its memory: afterwards nobody but the caller writes into it.
  [[nodiscard]] Task<bool> awaitReleased(Clock::time_point deadline);
  // Nobody waits for it any more: it is settled with kCancelled now, unless it has been. True: its
  // memory is free; false: the rail still holds it, until awaitReleased() ends.
  bool cancel();

  [[nodiscard]] bool settled() const { return settled_.isSet(); }
  [[nodiscard]] bool released() const { return released_.isSet(); }
  // Once it is settled. With success `checksums` has the CRC32C of each of its blocks, and all of
  // its memory has the bytes of which these are.
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }
  [[nodiscard]] std::span<const std::uint32_t> checksums() const { return checksums_; }

 private:
  friend RailWork;
  const RailRead read_;
  Outcome outcome_;
  std::vector<std::uint32_t> checksums_;
  bool cancelled_ = false;
  std::function<void()> onCancel_;
  Event settled_, released_;
};

// The same read as its rail has it.
class RailWork {
 public:
  explicit RailWork(std::shared_ptr<RailRequest> request);
  // What was not settled is settled with kUnavailable.
  ~RailWork();
  RailWork(const RailWork&) = delete;
  RailWork& operator=(const RailWork&) = delete;

  [[nodiscard]] const RailRead& read() const { return request_->read_; }
  // One place for each block.
  [[nodiscard]] std::span<std::uint32_t> checksums() { return request_->checksums_; }
  [[nodiscard]] bool settled() const { return request_->settled(); }
  // The first time counts.
  void settle(Outcome outcome);
  // Nobody waits for it any more. `then` is called when that comes to pass, at most once, and may
  // destroy the work; an empty one takes it back.
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
  // Takes all of them and answers each by itself, in any order, by the deadline of its patience; it
  // never fails as a whole. A rail that has ended settles them at once; one that does not reach the
  // memory of one settles that with kUnsupported, not answered.
  virtual void post(std::vector<std::unique_ptr<RailWork>> batch) = 0;
  // It takes requests.
  [[nodiscard]] virtual bool usable() const = 0;
  // Bytes that were posted and have not come.
  [[nodiscard]] virtual std::uint64_t load() const = 0;
};

// The rails of one peer.
class RailSource {
 public:
  virtual ~RailSource() = default;
  // The peer's name, for messages.
  [[nodiscard]] virtual const std::string& peer() const = 0;
  // The usable rail with the least to do, other than `avoid` where there is one; waits for the
  // first when none is usable yet. Errors: kUnavailable when there is none, kDeadlineExceeded.
  [[nodiscard]] virtual Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                                 Patience patience) = 0;
  // Those that are usable now; sets up what is missing.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Rail>> usableRails() = 0;
};

}  // namespace hearth
