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

#include "memory/memory_vector.h"
#include "verbs/completion_queue.h"
#include "verbs/device.h"

namespace hearth {

// A window and the memory that it opens; ends with both. Of window.h.
struct OpenedMemory {
  explicit OpenedMemory(std::shared_ptr<Device> of) : device(std::move(of)) {}
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  const std::shared_ptr<Device> device;
  ibv_mw* window = nullptr;
  MemorySlice memory;     // while isOpen
  std::uint32_t key = 0;  // of the last opening
  bool isOpen = false;
};

struct Transfer {
  enum class Kind : std::uint8_t {
    kWrite,  // into memory of the other side
    kSend,   // into the next receive of the other side
    kOpen,   // of a window
    kClose,
  };
  Kind kind = Kind::kWrite;
  MemoryVector local = {};  // registered with the device, unless it is sent inline
  std::uint64_t remoteAddress = 0;
  std::uint32_t remoteKey = 0;
  // The other side hears of it, with this number, when all bytes have come; takes a receive of it.
  std::optional<std::uint32_t> immediate = std::nullopt;
  std::shared_ptr<OpenedMemory> window = nullptr;
  // Once. May post to the endpoint, and may not destroy it.
  std::function<void(Status)> settled;
};

struct EndpointOptions {
  std::uint32_t sendRequests = 128;
  std::uint32_t receives = 64;
  std::uint32_t receiveBytes = 4096;
  std::uint32_t signalEvery = 16;   // work requests
  std::uint32_t inlineBytes = 128;  // at most; fewer where the device takes no more
};

class Endpoint final : private CompletionQueue::Taker {
 public:
  // What the other side has sent: `bytes` are valid during the call.
  struct Message {
    std::span<const std::byte> bytes;
    std::optional<std::uint32_t> immediate;
  };
  using OnMessage = std::function<void(const Message&)>;

  // Makes the queue pair and posts its receives. `completions` must remain live while this object
  // is used. kOutOfSpace: the completion queue has no room, or memory may not be pinned.
  [[nodiscard]] static Result<std::unique_ptr<Endpoint>> create(std::shared_ptr<Device> device,
                                                                CompletionQueue& completions,
                                                                EndpointOptions options,
                                                                OnMessage onMessage);
  // Destroys the queue pair, and then settles and releases what was under way.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // For the other side, over a connection that has authenticated both.
  [[nodiscard]] const EndpointAddress& address() const { return address_; }
  // Connects to what the other side calls itself. The path is proved by data only: the callers send
  // a message in both directions before they trust it. Errors leave the endpoint unusable.
  [[nodiscard]] Status connect(const EndpointAddress& theirs);

  // Takes all of them and settles each by itself. Those for which the queue has no room, or the
  // other side no receive, wait in order. A transfer settles with kUnsupported when its memory is
  // not registered, kInvalidArgument when it is too large for the queue, and with kUnavailable when
  // the endpoint has failed.
  void post(std::vector<std::unique_ptr<Transfer>> batch);
  // The other side has posted so many receives again.
  void addCredit(std::uint32_t receives);

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
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const std::shared_ptr<Device>& device() const { return device_; }

 private:
  enum class State : std::uint8_t { kInitial, kReady, kFailed };
  // A work request that the device has. The transfer is owned by its last one.
  struct Request {
    std::uint64_t sequence;
    Transfer* transfer;  // null: a marker
    bool signalled;
    std::unique_ptr<Transfer> last = nullptr;
  };
  class Chain;

  Endpoint(std::shared_ptr<Device> device, CompletionQueue& completions, EndpointOptions options,
           OnMessage onMessage);
  [[nodiscard]] Status createQueuePair();
  [[nodiscard]] Status postReceives();
  [[nodiscard]] bool postReceive(std::uint32_t index);
  [[nodiscard]] Status modify(ibv_qp_attr& attributes, int mask, const char* to);
  void onCompletion(const ibv_wc& completion) override;
  void onReceived(const ibv_wc& completion);
  void onSent(const ibv_wc& completion);
  void pump();
  // How many work requests a transfer takes; 0: it cannot be posted, and `why` says so.
  [[nodiscard]] std::size_t requestsOf(const Transfer& transfer, Status& why) const;
  void postChain(Chain& chain);
  // 0, or why the device does not take it.
  [[nodiscard]] int postMarker();
  static void settle(Transfer& transfer, const Status& status);
  void retire(std::size_t count, const Status& status);

  const std::shared_ptr<Device> device_;
  CompletionQueue& completions_;
  EndpointOptions options_;
  const OnMessage onMessage_;
  std::function<void()> onFailure_;
  ibv_qp* pair_ = nullptr;
  std::uint32_t reserved_ = 0;  // in the completion queue
  EndpointAddress address_;
  State state_ = State::kInitial;
  Status failure_;
  std::shared_ptr<MemoryRegion> receives_;
  std::deque<Request> inFlight_;                   // as the device has them
  std::deque<std::unique_ptr<Transfer>> waiting_;  // for room
  std::uint64_t nextSequence_ = 0;
  std::uint32_t sinceSignal_ = 0;
  std::uint32_t credit_ = 0;  // receives of the other side
  bool pumping_ = false;
  Counts counts_;
};

}  // namespace hearth
