#include "gpu/cuda_stream.h"

#include <array>

namespace hearth {
namespace {

class CudaPinnedMemory final : public PinnedMemory {
 public:
  CudaPinnedMemory(std::shared_ptr<CudaPrimaryContext> context, std::span<std::byte> bytes)
      : context_(std::move(context)), bytes_(bytes) {}
  ~CudaPinnedMemory() override {
    const CudaScope scope(*context_);
    context_->cuda().hostFree(bytes_.data());
  }
  CudaPinnedMemory(const CudaPinnedMemory&) = delete;
  CudaPinnedMemory& operator=(const CudaPinnedMemory&) = delete;
  std::span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::shared_ptr<CudaPrimaryContext> context_;
  const std::span<std::byte> bytes_;
};

class CudaCopyStream final : public CopyStream {
 public:
  CudaCopyStream(std::shared_ptr<CudaPrimaryContext> context, CudaStream stream)
      : context_(std::move(context)), cuda_(context_->cuda()), stream_(stream) {}
  ~CudaCopyStream() override {
    const CudaScope scope(*context_);
    cuda_.streamSynchronize(stream_);
    for (const Slot& slot : slots_) {
      if (slot.event != nullptr) cuda_.eventDestroy(slot.event);
    }
    cuda_.streamDestroy(stream_);
  }
  CudaCopyStream(const CudaCopyStream&) = delete;
  CudaCopyStream& operator=(const CudaCopyStream&) = delete;

  Status makeEvents() {
    const CudaScope scope(*context_);
    if (!scope.status().ok()) return scope.status();
    for (Slot& slot : slots_) {
      // A lane that waits leaves its processor to the lanes that read files.
      const int result =
          cuda_.eventCreate(&slot.event, kCudaEventBlockingSync | kCudaEventDisableTiming);
      if (result != kCudaSuccess) return cudaError(cuda_, "cuEventCreate", result);
    }
    return {};
  }

  Status copyIn(std::uint64_t address, std::span<const std::byte> pinned) override {
    return call("cuMemcpyHtoDAsync",
                [&] { return cuda_.copyToDevice(address, pinned.data(), pinned.size(), stream_); });
  }
  Status copyOut(std::span<std::byte> pinned, std::uint64_t address) override {
    return call("cuMemcpyDtoHAsync",
                [&] { return cuda_.copyToHost(pinned.data(), address, pinned.size(), stream_); });
  }
  Status mark(unsigned slot) override {
    const Status marked =
        call("cuEventRecord", [&] { return cuda_.eventRecord(slots_[slot].event, stream_); });
    slots_[slot].isMarked = marked.ok();
    // Without a mark nobody could tell when the copies end.
    if (!marked.ok()) static_cast<void>(synchronize());
    return marked;
  }
  Status wait(unsigned slot) override {
    if (!slots_[slot].isMarked) return {};
    slots_[slot].isMarked = false;
    const Status waited =
        call("cuEventSynchronize", [&] { return cuda_.eventSynchronize(slots_[slot].event); });
    if (!waited.ok()) static_cast<void>(synchronize());
    return waited;
  }

 private:
  struct Slot {
    CudaEvent event = nullptr;
    bool isMarked = false;
  };
  template <class Call>
  Status call(const char* name, Call make) {
    const CudaScope scope(*context_);
    if (!scope.status().ok()) return scope.status();
    return cudaStatus(cuda_, name, make());
  }
  Status synchronize() {
    return call("cuStreamSynchronize", [&] { return cuda_.streamSynchronize(stream_); });
  }

  const std::shared_ptr<CudaPrimaryContext> context_;
  const CudaFunctions& cuda_;
  const CudaStream stream_;
  std::array<Slot, 2> slots_;
};

}  // namespace

Result<std::unique_ptr<PinnedMemory>> pinCudaMemory(std::shared_ptr<CudaPrimaryContext> context,
                                                    std::size_t bytes) {
  const CudaScope scope(*context);
  if (!scope.status().ok()) return scope.status().error();
  const CudaFunctions& cuda = context->cuda();
  void* memory = nullptr;
  if (const int result = cuda.hostAllocate(&memory, bytes, kCudaHostAllocPortable);
      result != kCudaSuccess) {
    return cudaError(cuda, "cuMemHostAlloc", result)
        .within(std::to_string(bytes) + " bytes of pinned memory");
  }
  return std::unique_ptr<PinnedMemory>(
      new CudaPinnedMemory(std::move(context), {static_cast<std::byte*>(memory), bytes}));
}

Result<std::unique_ptr<CopyStream>> makeCudaStream(std::shared_ptr<CudaPrimaryContext> context) {
  const CudaScope scope(*context);
  if (!scope.status().ok()) return scope.status().error();
  const CudaFunctions& cuda = context->cuda();
  CudaStream stream = nullptr;
  if (const int result = cuda.streamCreate(&stream, kCudaStreamNonBlocking);
      result != kCudaSuccess) {
    return cudaError(cuda, "cuStreamCreate", result);
  }
  auto made = std::make_unique<CudaCopyStream>(std::move(context), stream);
  if (const Status status = made->makeEvents(); !status.ok()) return status.error();
  return std::unique_ptr<CopyStream>(std::move(made));
}

}  // namespace hearth
