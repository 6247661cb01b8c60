#include "transport/rdma_shard.h"

#include <poll.h>

#include <algorithm>

#include "base/generated/constants.h"

namespace hearth {
namespace {

// In one pool, and so many pools: a few megabytes each.
constexpr std::size_t kMessages = 512;
constexpr std::size_t kMessagePools = 32;
constexpr std::size_t kStagingBuffers = 2;
constexpr std::uint32_t kCompletions = 1u << 14;
constexpr std::uint32_t kMostAtOnce = 256;

}  // namespace

struct RdmaShard::Pool : std::enable_shared_from_this<Pool> {
  static Result<std::shared_ptr<Pool>> create(const std::shared_ptr<Device>& device,
                                              std::size_t count, std::size_t bytes) {
    auto memory = MemoryRegion::allocate(count * bytes);
    if (!memory.ok()) return memory.error();
    const auto known = (*memory)->registrationWith(device);
    if (!known.ok()) return known.error();
    auto pool = std::make_shared<Pool>();
    pool->region = std::move(*memory);
    pool->bufferBytes = bytes;
    for (std::size_t at = 0; at < count; ++at) pool->free.push_back(at);
    return pool;
  }

  // With room; `returned` is called when the device and the caller have let go of it.
  MemorySlice copyOf(std::span<const std::byte> bytes, std::function<void()> returned) {
    const std::size_t index = free.back();
    free.pop_back();
    MemorySlice slice{region, index * bufferBytes, bytes.size()};
    std::ranges::copy(bytes, slice.bytes().begin());
    slice.owner = std::shared_ptr<const void>(
        region.get(),
        [pool = shared_from_this(), index, returned = std::move(returned)](const void*) {
          pool->free.push_back(index);
          if (returned) returned();
        });
    return slice;
  }

  std::shared_ptr<MemoryRegion> region;
  std::size_t bufferBytes = 0;
  std::vector<std::size_t> free;
};

Result<std::unique_ptr<RdmaShard>> RdmaShard::create(
    Reactor& reactor, std::shared_ptr<Device> device,
    std::vector<std::shared_ptr<MemoryRegion>> arena, RdmaTimes times) {
  std::unique_ptr<RdmaShard> made(new RdmaShard(reactor, std::move(device), times));
  auto completions = CompletionQueue::create(made->device_, kCompletions);
  if (!completions.ok()) return completions.error();
  made->completions_ = std::move(*completions);
  auto messages = Pool::create(made->device_, kMessages, kRdmaMessageBytes);
  if (!messages.ok()) return messages.error();
  made->messages_.push_back(std::move(*messages));
  auto staging = Pool::create(made->device_, kStagingBuffers, kChunkBytes);
  if (!staging.ok()) return staging.error();
  made->staging_ = std::move(*staging);
  made->room_.release(kStagingBuffers);
  made->arena_ = std::move(arena);
  return made;
}

RdmaShard::~RdmaShard() = default;

void RdmaShard::start(Gate& gate, bool watchesDevice) {
  gate.spawn(takeCompletions(*this));
  if (watchesDevice) gate.spawn(takeEvents(*this));
}

void RdmaShard::stop() {
  stopping_ = true;
  if (waiting_ != nullptr) reactor_.cancel(*waiting_);
  if (watching_ != nullptr) reactor_.cancel(*watching_);
}

Task<void> RdmaShard::takeEvents(RdmaShard& shard) {
  while (!shard.stopping_) {
    auto waiting = shard.reactor_.poll(shard.device_->eventDescriptor(), POLLIN);
    shard.watching_ = &waiting.operation;
    const std::int32_t result = co_await waiting;
    shard.watching_ = nullptr;
    // A queue pair that the device has failed flushes its requests, which tells its endpoint.
    static_cast<void>(shard.device_->takeEvents());
    if (result < 0) co_return;
  }
}

Task<void> RdmaShard::takeCompletions(RdmaShard& shard) {
  while (!shard.stopping_) {
    if (shard.completions_->poll(kMostAtOnce) != 0) {
      // Others on this thread have their turn.
      co_await shard.reactor_.sleep(Clock::duration::zero());
      continue;
    }
    const Status armed = shard.completions_->arm();
    if (shard.completions_->poll(kMostAtOnce) != 0) continue;
    if (!armed.ok()) {
      co_await shard.reactor_.sleep(std::chrono::milliseconds(1));
      continue;
    }
    auto waiting = shard.reactor_.poll(shard.completions_->descriptor(), POLLIN);
    shard.waiting_ = &waiting.operation;
    co_await waiting;
    shard.waiting_ = nullptr;
    shard.completions_->takeEvents();
  }
}

void RdmaShard::takeNow() { completions_->poll(kMostAtOnce); }

Result<std::unique_ptr<Endpoint>> RdmaShard::endpoint(std::uint32_t requests,
                                                      std::uint32_t receiveBytes,
                                                      Endpoint::OnMessage onMessage) {
  EndpointOptions options;
  // A receive is posted again just after its message has been taken, and the other side hears of
  // it by the next answer. So each request may take two, one for itself and one for its cancel or
  // for the answer before it, and some are left for probes.
  options.receives = 2 * requests + 8;
  options.receiveBytes = receiveBytes;
  return Endpoint::create(device_, *completions_, options, std::move(onMessage));
}

Result<MemorySlice> RdmaShard::message(std::span<const std::byte> frame) {
  if (frame.size() > kRdmaMessageBytes)
    return Error{ErrorCode::kInternal, "a frame is too long for an RDMA message"};
  for (const std::shared_ptr<Pool>& pool : messages_)
    if (!pool->free.empty()) return pool->copyOf(frame, {});
  if (messages_.size() == kMessagePools)
    return Error{ErrorCode::kOutOfSpace, "all RDMA messages of this shard are under way"};
  auto more = Pool::create(device_, kMessages, kRdmaMessageBytes);
  if (!more.ok()) return more.error();
  messages_.push_back(std::move(*more));
  return messages_.back()->copyOf(frame, {});
}

Task<MemorySlice> RdmaShard::readable(std::span<const std::byte> bytes,
                                      std::shared_ptr<const void> keep) {
  for (const std::shared_ptr<MemoryRegion>& region : arena_) {
    if (keep == nullptr || device_->registeredAs(*region) == nullptr) continue;
    const std::span<const std::byte> all = region->bytes();
    const std::less_equal<> notAfter;
    if (notAfter(all.data(), bytes.data()) &&
        notAfter(bytes.data() + bytes.size(), all.data() + all.size())) {
      co_return MemorySlice{region, static_cast<std::uint64_t>(bytes.data() - all.data()),
                            bytes.size(), std::move(keep)};
    }
  }
  co_await room_.acquire(1);
  co_return staging_->copyOf(bytes, [this] { room_.release(1); });
}

}  // namespace hearth
