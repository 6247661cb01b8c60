#include "gpu/testing/fake_gpu.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace hearth::testing_gpu {

FakeGpu& FakeGpu::instance() {
  static auto& fake = *new FakeGpu;
  return fake;
}

void FakeGpu::reset(const FakeOptions& options) {
  const std::lock_guard lock(mutex_);
  const bool sameMemory = options.memoryBytes == options_.memoryBytes &&
                          devices_.size() == static_cast<std::size_t>(options.devices);
  if (!sameMemory) {
    for (Device& device : devices_) {
      munmap(device.window, options_.memoryBytes);
      munmap(device.shadow, options_.memoryBytes);
    }
    devices_.assign(static_cast<std::size_t>(options.devices), {});
    for (Device& device : devices_) {
      constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
      device.window =
          static_cast<std::byte*>(mmap(nullptr, options.memoryBytes, PROT_NONE, kFlags, -1, 0));
      device.shadow = static_cast<std::byte*>(
          mmap(nullptr, options.memoryBytes, PROT_READ | PROT_WRITE, kFlags, -1, 0));
    }
  }
  options_ = options;
  random_.seed(options.seed);
  hangs_.clear();
  calls_.clear();
  breaches_.clear();
  started_ = lost_ = false;
  scopes_ = 0;
  for (Device& device : devices_) {
    device.allocations.clear();
    device.retained = 0;
  }
  for (const auto& [memory, bytes] : pinned_) munmap(memory, bytes);
  pinned_.clear();
  streams_.clear();
  events_.clear();
  driverOpen_ = peerToPeer_ = false;
  compatibility_ = true;
  handles_.clear();
  registered_.clear();
  handlesInUse_.clear();
  inFlight_.clear();
  mostInFlight_ = 0;
}

int FakeGpu::enter(Lock& lock, const char* call, bool mayFail) {
  ++calls_[call];
  if (hangs_.contains(call)) {
    ++hanging_;
    released_.wait(lock, [&] { return !hangs_.contains(call); });
    --hanging_;
  }
  runSome();
  if (const auto failing = options_.failing.find(call); failing != options_.failing.end()) {
    return failing->second;
  }
  if (!mayFail) return 0;
  if (lost_) return kCudaIllegalAddress;
  if (options_.failures == 0 || random_() % 1000 >= options_.failures) return 0;
  constexpr int kResults[] = {kCudaInvalidValue, kCudaOutOfMemory, kCudaNotSupported, 999};
  return kResults[random_() % std::size(kResults)];
}

void FakeGpu::run(Stream& stream, CudaEvent event) {
  while (!stream.queue.empty()) {
    const Copy copy = stream.queue.front();
    stream.queue.pop_front();
    if (copy.event != nullptr) {
      if (const auto found = events_.find(copy.event); found != events_.end()) {
        found->second.recordedOn = nullptr;
      }
      if (copy.event == event) return;
    } else if (!isAllocated(copy.address, copy.bytes) || !isPinned(copy.memory, copy.bytes)) {
      breach("a copy runs whose memory is gone");
    } else if (copy.toDevice) {
      std::memcpy(shadowOf(copy.address), copy.memory, copy.bytes);
    } else {
      std::memcpy(copy.memory, shadowOf(copy.address), copy.bytes);
    }
  }
}

// A GPU does not wait to be asked: now and then a stream makes progress by itself.
void FakeGpu::runSome() {
  if (streams_.empty() || random_() % 4 != 0) return;
  auto stream = streams_.begin();
  std::advance(stream, static_cast<std::ptrdiff_t>(random_() % streams_.size()));
  if (stream->second.queue.empty()) return;
  const CudaEvent last = stream->second.queue.front().event;
  if (last != nullptr) {
    run(stream->second, last);
    return;
  }
  std::deque<Copy> rest(stream->second.queue.begin() + 1, stream->second.queue.end());
  stream->second.queue.resize(1, stream->second.queue.front());
  run(stream->second, nullptr);
  stream->second.queue = std::move(rest);
}

void FakeGpu::loseContexts() {
  lost_ = true;
  for (auto& [handle, stream] : streams_) stream.queue.clear();
  for (auto& [handle, event] : events_) event.recordedOn = nullptr;
}

FakeGpu::Device* FakeGpu::deviceOf(std::uint64_t address) {
  for (Device& device : devices_) {
    const auto start = reinterpret_cast<std::uint64_t>(device.window);
    if (address >= start && address < start + options_.memoryBytes) return &device;
  }
  return nullptr;
}

bool FakeGpu::isAllocated(std::uint64_t address, std::size_t bytes) {
  Device* const device = deviceOf(address);
  if (device == nullptr) return false;
  auto next = device->allocations.upper_bound(address);
  if (next == device->allocations.begin()) return false;
  const auto& [start, size] = *std::prev(next);
  return address + bytes <= start + size;
}

std::byte* FakeGpu::shadowOf(std::uint64_t address) {
  const Device& device = *deviceOf(address);
  return device.shadow + (address - reinterpret_cast<std::uint64_t>(device.window));
}

bool FakeGpu::isPinned(const std::byte* memory, std::size_t bytes) const {
  return std::ranges::any_of(pinned_, [&](const auto& each) {
    return memory >= each.first && memory + bytes <= each.first + each.second;
  });
}

bool FakeGpu::isQueued(std::uint64_t address, std::size_t bytes) const {
  const auto meets = [&](std::uint64_t start, std::size_t size) {
    return start < address + bytes && address < start + size;
  };
  const bool copied = std::ranges::any_of(streams_, [&](const auto& stream) {
    return std::ranges::any_of(stream.second.queue, [&](const Copy& copy) {
      return copy.event == nullptr &&
             (meets(copy.address, copy.bytes) ||
              meets(reinterpret_cast<std::uint64_t>(copy.memory), copy.bytes));
    });
  });
  return copied || std::ranges::any_of(
                       inFlight_, [&](const Use& use) { return meets(use.address, use.bytes); });
}

void FakeGpu::fail(const std::string& call, int result) {
  const std::lock_guard lock(mutex_);
  options_.failing[call] = result;
}

void FakeGpu::succeed(const std::string& call) {
  const std::lock_guard lock(mutex_);
  options_.failing.erase(call);
}

void FakeGpu::hang(const std::string& call) {
  const std::lock_guard lock(mutex_);
  hangs_.insert(call);
}

void FakeGpu::release() {
  const std::lock_guard lock(mutex_);
  hangs_.clear();
  released_.notify_all();
}

int FakeGpu::hanging() const {
  const std::lock_guard lock(mutex_);
  return hanging_;
}

std::vector<std::string> FakeGpu::breaches() const {
  const std::lock_guard lock(mutex_);
  return breaches_;
}

std::vector<std::string> FakeGpu::live() const {
  const std::lock_guard lock(mutex_);
  std::size_t allocations = 0;
  int retained = 0;
  for (const Device& device : devices_) {
    allocations += device.allocations.size();
    retained += device.retained;
  }
  std::vector<std::string> all;
  const auto count = [&](std::size_t number, const char* what) {
    if (number != 0) all.push_back(std::to_string(number) + " " + what);
  };
  count(allocations, "of GPU memory");
  count(pinned_.size(), "of pinned memory");
  count(streams_.size(), "streams");
  count(events_.size(), "events");
  count(static_cast<std::size_t>(retained), "contexts");
  count(static_cast<std::size_t>(scopes_), "pushed contexts");
  count(handles_.size(), "registered files");
  count(registered_.size(), "of registered memory");
  count(driverOpen_ ? 1 : 0, "open cuFile driver");
  return all;
}

std::size_t FakeGpu::pinnedPieces() const {
  const std::lock_guard lock(mutex_);
  return pinned_.size();
}

std::uint64_t FakeGpu::calls(const std::string& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::uint64_t FakeGpu::mostInFlight() const {
  const std::lock_guard lock(mutex_);
  return mostInFlight_;
}

std::vector<std::byte> FakeGpu::peek(std::uint64_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const std::byte* const start = const_cast<FakeGpu*>(this)->shadowOf(address);
  return {start, start + bytes};
}

void FakeGpu::poke(std::uint64_t address, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(bytes, shadowOf(address));
}

}  // namespace hearth::testing_gpu
