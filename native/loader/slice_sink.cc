#include "loader/slice_sink.h"

#include <array>
#include <span>

namespace hearth {
namespace {

using SinkMemories = std::vector<std::shared_ptr<MemoryRegion>>;

class HostSink final : public SliceSink {
 public:
  explicit HostSink(SinkMemories memories) : memories_(std::move(memories)) {}
  Status begin() override { return {}; }
  std::byte* place(std::uint64_t file, std::uint64_t inMemory, std::uint64_t) override {
    return memories_[file]->bytes().data() + inMemory;
  }
  Status end() override { return {}; }
  Status finish() override { return {}; }

 private:
  const SinkMemories memories_;
};

// One half of the pinned memory is written while the device copies from the other.
class DeviceSink final : public SliceSink {
 public:
  DeviceSink(SinkMemories memories, std::array<std::unique_ptr<PinnedMemory>, 2> halves,
             std::unique_ptr<CopyStream> stream)
      : memories_(std::move(memories)), halves_(std::move(halves)), stream_(std::move(stream)) {}

  Status begin() override {
    half_ = 1 - half_;
    used_ = 0;
    copies_.clear();
    return stream_->wait(half_);
  }
  std::byte* place(std::uint64_t file, std::uint64_t inMemory, std::uint64_t bytes) override {
    const std::span<std::byte> room = halves_[half_]->bytes().subspan(used_, bytes);
    used_ += bytes;
    copies_.push_back({memories_[file]->address() + inMemory, room});
    return room.data();
  }
  Status end() override {
    for (const Copy& copy : copies_) {
      if (Status begun = stream_->copyIn(copy.address, copy.from); !begun) return begun;
    }
    return stream_->mark(half_);
  }
  Status finish() override {
    for (const unsigned half : {0U, 1U}) {
      if (Status arrived = stream_->wait(half); !arrived) return arrived;
    }
    return {};
  }

 private:
  struct Copy {
    std::uint64_t address = 0;
    std::span<const std::byte> from;
  };

  const SinkMemories memories_;
  const std::array<std::unique_ptr<PinnedMemory>, 2> halves_;
  const std::unique_ptr<CopyStream> stream_;  // its destructor waits, so it goes first
  unsigned half_ = 0;
  std::uint64_t used_ = 0;
  std::vector<Copy> copies_;
};

}  // namespace

Result<std::unique_ptr<SliceSink>> SliceSink::open(SinkMemories memories,
                                                   const std::shared_ptr<Device>& device,
                                                   std::uint64_t windowBytes) {
  if (!device) return std::unique_ptr<SliceSink>(new HostSink(std::move(memories)));
  std::array<std::unique_ptr<PinnedMemory>, 2> halves;
  for (auto& half : halves) {
    auto pinned = device->pin(windowBytes);
    if (!pinned) return pinned.error();
    half = std::move(*pinned);
  }
  auto stream = device->stream();
  if (!stream) return stream.error();
  return std::unique_ptr<SliceSink>(
      new DeviceSink(std::move(memories), std::move(halves), std::move(*stream)));
}

}  // namespace hearth
