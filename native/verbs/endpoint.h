// A reliable connection between two agents over one pair of RDMA ports: one queue pair.
//
// Whose memory is it? From post() on a transfer belongs to the endpoint. The endpoint settles it
// once, when it knows how the transfer ended, and destroys it when the device touches its memory no
// more: when all its work requests have completed or were flushed, or the queue pair is destroyed.
// After a failure that may be later than the settling.
//
// Which request failed? Work requests complete in order, and only every k-th of them, and the last
// of a chain, is signalled. A completion ends all requests before its own: these have succeeded,
// since one that fails always completes. When the device takes only a part of a chain, the request
// at which it stopped fails, those behind are posted again, and a marker (a signalled write of
// nothing) completes those that were taken and not signalled.
//
// One thread, that of the completion queue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "verbs/queue_pair.h"
#include "verbs/request_ledger.h"
#include "verbs/transfer.h"
#include "verbs/work_chain.h"

namespace hearth {

class Endpoint final : private CompletionQueue::Taker {
 public:
  // A message of the other side: `bytes` are valid during the call.
  struct Message {
    std::span<const std::byte> bytes;
    std::optional<std::uint32_t> immediate;
  };
  using OnMessage = std::function<void(const Message&)>;

  // Makes the queue pair and posts its receives. `completions` must remain live while this object
  // is used. kOutOfSpace: the completion queue has no room, or memory may not be pinned.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> create(std::shared_ptr<RdmaDevice> device,
                                                                CompletionQueue& completions,
                                                                EndpointOptions options,
                                                                OnMessage onMessage);
  // Destroys the queue pair, and then settles and releases what was under way.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // For the other side, over a connection that has authenticated both.
  [[nodiscard]] const EndpointAddress& address() const { return pair_->address(); }
  // Connects to what the other side calls itself. The path is proved by data only: the callers send
  // a message in both directions before they trust it. Errors leave the endpoint unusable.
  [[nodiscard]] Status connect(const EndpointAddress& theirs);

  // Takes all of them and settles each by itself. Those for which the queue has no room, or the
  // other side no receive, wait in order. A transfer settles with kUnsupported when its memory is
  // not registered and it is no message of EndpointOptions.unregisteredBytes at most,
  // kInvalidArgument when it is too large for the queue, and with kUnavailable when the endpoint
  // has failed.
  void post(std::vector<std::unique_ptr<Transfer>> batch);
  // The other side has posted so many receives again.
  void addCredit(std::uint32_t receives);
  // Receives of the other side that no transfer has taken or waits for.
  [[nodiscard]] std::uint32_t spareCredit() const;

  [[nodiscard]] bool usable() const { return state_ == State::kReady; }
  // `failed` is called once, after all transfers were settled, and may not destroy the endpoint.
  void onFailure(std::function<void()> failed) { onFailure_ = std::move(failed); }
  // Why it has failed; kOk before.
  [[nodiscard]] const Status& failure() const { return failure_; }
  // Settles all transfers with the reason, and has the device flush those that are under way: these
  // are released when the flush has come. The first reason counts.
  void fail(Error reason);
  // Nothing is under way: the device touches no memory of a transfer.
  [[nodiscard]] bool drained() const { return inFlight_.empty() && waiting_.empty(); }

  struct Counts {
    std::uint64_t requests = 0, signalled = 0, markers = 0, partialPosts = 0, bytesWritten = 0;
  };
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] const std::shared_ptr<RdmaDevice>& device() const { return pair_->device(); }

 private:
  enum class State : std::uint8_t { kInitial, kReady, kFailed };

  explicit Endpoint(OnMessage onMessage) : onMessage_(std::move(onMessage)) {}
  void onCompletion(const ibv_wc& completion) override;
  void onReceived(const ibv_wc& completion);
  void onSent(const ibv_wc& completion);
  void pump();
  void postChain(WorkChain& chain);
  // The device takes the entries from `at` on up to `stopped`.
  void take(WorkChain& chain, std::size_t& at, std::size_t stopped);
  // The device does not take entry `at`: it skips all of its transfer.
  void refuse(WorkChain& chain, std::size_t& at, int error);
  // 0, or why the device does not take it.
  [[nodiscard]] int postMarker();

  const OnMessage onMessage_;
  std::function<void()> onFailure_;
  std::unique_ptr<QueuePair> pair_;
  State state_ = State::kInitial;
  Status failure_;
  RequestLedger inFlight_;                         // as the device has them
  std::deque<std::unique_ptr<Transfer>> waiting_;  // for room
  std::uint64_t nextSequence_ = 0;
  std::uint32_t sinceSignal_ = 0;
  std::uint32_t credit_ = 0;  // receives of the other side
  bool pumping_ = false;
  Counts counts_;
};

}  // namespace hearth
