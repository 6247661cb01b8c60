#include "transport/rdma_shard.h"

#include <poll.h>

#include <algorithm>

#include "base/generated/constants.h"

namespace hearth {
namespace {

// Messages in one pool, and number of pools: a few megabytes each.
constexpr std::size_t kMessages = 512;
constexpr std::size_t kMessagePools = 32;
// Entries of one queue, for about 80 endpoints; and number of queues.
constexpr std::uint32_t kCompletions = 1u << 14;
constexpr std::size_t kQueues = 64;
// Receives of an endpoint beside those of its requests.
constexpr std::uint32_t kSpareReceives = 8;
constexpr std::uint32_t kMaxAtOnce = 256;

}  // namespace

Result<std::unique_ptr<RdmaShard>> RdmaShard::create(Reactor& reactor,
                                                     std::shared_ptr<RdmaDevice> device,
                                                     Arena arena, RdmaTimes times) {
  std::unique_ptr<RdmaShard> made(new RdmaShard(reactor, std::move(device), times));
  if (const auto queue = made->addQueue(); !queue.ok()) return queue.error();
  auto messages = RegisteredPool::create(made->device_, kMessages, kRdmaMessageBytes);
  if (!messages.ok()) return messages.error();
  made->messages_.push_back(std::move(*messages));
  auto staging = StagingBuffers::create(reactor, made->device_);
  if (!staging.ok()) return staging.error();
  made->staging_ = std::move(*staging);
  made->arena_ = std::move(arena);
  return made;
}

RdmaShard::~RdmaShard() = default;

Result<RdmaShard::Queue*> RdmaShard::addQueue() {
  auto completions = CompletionQueue::create(device_, kCompletions);
  if (!completions.ok()) return completions.error();
  queues_.push_back(std::make_unique<Queue>(std::move(*completions)));
  if (gate_ != nullptr) gate_->spawn(takeCompletions(*this, *queues_.back()));
  return queues_.back().get();
}

void RdmaShard::start(Gate& gate, bool watchesDevice) {
  gate_ = &gate;
  for (const std::unique_ptr<Queue>& queue : queues_) gate.spawn(takeCompletions(*this, *queue));
  if (watchesDevice) gate.spawn(takeEvents(*this));
}

void RdmaShard::stop() {
  stopping_ = true;
  for (const std::unique_ptr<Queue>& queue : queues_)
    if (queue->waiting != nullptr) reactor_.cancel(*queue->waiting);
  if (watching_ != nullptr) reactor_.cancel(*watching_);
}

Task<void> RdmaShard::takeEvents(RdmaShard& shard) {
  while (!shard.stopping_) {
    auto waiting = shard.reactor_.poll(shard.device_->eventDescriptor(), POLLIN);
    shard.watching_ = &waiting.operation;
    const std::int32_t result = co_await waiting;
    shard.watching_ = nullptr;
    // The device flushes the requests of a queue pair that it has failed, which tells its endpoint.
    static_cast<void>(shard.device_->takeEvents());
    if (result < 0) co_return;
  }
}

Task<void> RdmaShard::takeCompletions(RdmaShard& shard, Queue& queue) {
  CompletionQueue& completions = *queue.completions;
  while (!shard.stopping_) {
    if (completions.poll(kMaxAtOnce) != 0) {
      // Gives others on this thread a turn.
      co_await shard.reactor_.sleep(Clock::duration::zero());
      continue;
    }
    const Status armed = completions.arm();
    if (completions.poll(kMaxAtOnce) != 0) continue;
    if (!armed.ok()) {
      co_await shard.reactor_.sleep(std::chrono::milliseconds(1));
      continue;
    }
    auto waiting = shard.reactor_.poll(completions.descriptor(), POLLIN);
    queue.waiting = &waiting.operation;
    co_await waiting;
    queue.waiting = nullptr;
    completions.takeEvents();
  }
}

void RdmaShard::takeNow() {
  for (std::size_t at = 0; at < queues_.size(); ++at) queues_[at]->completions->poll(kMaxAtOnce);
}

std::shared_ptr<const void> RdmaShard::admit(const std::string& peer) {
  std::size_t& count = endpoints_[peer];
  if (count >= kEndpointsPerPeer) return nullptr;
  ++count;
  return {this, [this, peer](const void*) {
            const auto known = endpoints_.find(peer);
            if (--known->second == 0) endpoints_.erase(known);
          }};
}

std::uint32_t RdmaShard::requestsOf(std::uint32_t wanted) const {
  const std::uint32_t receives = std::max(device_->limits().receives, kSpareReceives + 2);
  return std::min(wanted, (receives - kSpareReceives) / 2);
}

Result<std::unique_ptr<Endpoint>> RdmaShard::endpoint(std::uint32_t requests,
                                                      std::uint32_t receiveBytes,
                                                      Endpoint::OnMessage onMessage) {
  EndpointOptions options;
  // A receive is posted again just after its message has been taken, and the other side hears of
  // that by the next answer. So each request may take two receives, one for itself and one for its
  // cancel or for the answer before it; some are left for probes.
  options.receives = 2 * requests + kSpareReceives;
  options.receiveBytes = receiveBytes;
  const std::uint32_t entries = options.sendRequests + options.receives;
  const auto roomy = std::ranges::find_if(
      queues_, [&](const auto& queue) { return queue->completions->hasRoom(entries); });
  Queue* queue = roomy == queues_.end() ? nullptr : roomy->get();
  if (queue == nullptr) {
    if (queues_.size() == kQueues)
      return Error{ErrorCode::kOutOfSpace, "this shard has too many RDMA endpoints"};
    const auto added = addQueue();
    if (!added.ok()) return added.error();
    queue = *added;
  }
  return Endpoint::create(device_, *queue->completions, options, std::move(onMessage));
}

Result<MemorySlice> RdmaShard::message(std::span<const std::byte> frame) {
  if (frame.size() > kRdmaMessageBytes)
    return Error{ErrorCode::kInternal, "a frame is too long for an RDMA message"};
  for (const std::shared_ptr<RegisteredPool>& pool : messages_)
    if (pool->hasRoom()) return pool->copyOf(frame);
  if (messages_.size() == kMessagePools)
    return Error{ErrorCode::kOutOfSpace, "all RDMA messages of this shard are under way"};
  auto more = RegisteredPool::create(device_, kMessages, kRdmaMessageBytes);
  if (!more.ok()) return more.error();
  messages_.push_back(std::move(*more));
  return messages_.back()->copyOf(frame);
}

std::optional<MemorySlice> RdmaShard::inPlace(const std::string& peer,
                                              std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> keep) {
  if (keep == nullptr) return std::nullopt;
  for (const std::shared_ptr<MemoryRegion>& region : arena_.regions) {
    const std::span<std::byte> all = region->bytes();
    const std::less_equal<> notAfter;
    if (!notAfter(all.data(), bytes.data()) ||
        !notAfter(bytes.data() + bytes.size(), all.data() + all.size()))
      continue;
    if (device_->registeredAs(*region) == nullptr) return std::nullopt;
    const auto offset = static_cast<std::uint64_t>(bytes.data() - all.data());
    const std::byte* const slot = all.data() + offset / kChunkBytes * kChunkBytes;
    auto held = arena_.held->hold(peer, slot, std::move(keep));
    if (held == nullptr) return std::nullopt;
    return MemorySlice{region, offset, bytes.size(), std::move(held)};
  }
  return std::nullopt;
}

}  // namespace hearth
