#include "gpu/cuda_device.h"

#include <sstream>

#include "gpu/cuda_stream.h"

namespace hearth {
namespace {

constexpr std::uint64_t kHostPage = 4096;

// Frees memory of the GPU when the region that it belongs to goes.
struct Allocation {
  std::shared_ptr<CudaPrimaryContext> context;
  std::uint64_t address;

  Allocation(std::shared_ptr<CudaPrimaryContext> of, std::uint64_t at)
      : context(std::move(of)), address(at) {}
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() {
    const CudaScope scope(*context);
    context->cuda().memoryFree(address);
  }
};

std::string hex(std::uint64_t address) {
  std::ostringstream text;
  text << "0x" << std::hex << address;
  return text.str();
}

}  // namespace

Result<std::shared_ptr<CudaPrimaryContext>> CudaPrimaryContext::retain(const CudaFunctions& cuda,
                                                                       int device) {
  CudaContext context = nullptr;
  if (const int result = cuda.primaryContextRetain(&context, device); result != kCudaSuccess) {
    return cudaError(cuda, "cuDevicePrimaryCtxRetain", result);
  }
  return std::shared_ptr<CudaPrimaryContext>(new CudaPrimaryContext(cuda, device, context));
}

CudaPrimaryContext::~CudaPrimaryContext() { cuda_.primaryContextRelease(device_); }

CudaScope::CudaScope(const CudaPrimaryContext& context)
    : cuda_(context.cuda()),
      status_(cudaStatus(cuda_, "cuCtxPushCurrent", cuda_.contextPushCurrent(context.handle()))) {}

CudaScope::~CudaScope() {
  CudaContext popped = nullptr;
  if (status_.ok()) cuda_.contextPopCurrent(&popped);
}

Result<std::shared_ptr<CudaDevice>> CudaDevice::open(const CudaFunctions& cuda, int ordinal,
                                                     OpenDirect openDirect) {
  int count = 0;
  if (const int result = cuda.deviceGetCount(&count); result != kCudaSuccess) {
    return cudaError(cuda, "cuDeviceGetCount", result);
  }
  if (ordinal >= count) {
    return Error{ErrorCode::kNotFound, "cuda:" + std::to_string(ordinal) + " is not one of the " +
                                           std::to_string(count) +
                                           " GPUs of this process; look at `nvidia-smi -L` and "
                                           "CUDA_VISIBLE_DEVICES"};
  }
  int device = 0;
  if (const int result = cuda.deviceGet(&device, ordinal); result != kCudaSuccess) {
    return cudaError(cuda, "cuDeviceGet", result);
  }
  char model[256] = "";
  if (const int result = cuda.deviceGetName(model, sizeof model - 1, device);
      result != kCudaSuccess) {
    return cudaError(cuda, "cuDeviceGetName", result);
  }
  Result<std::shared_ptr<CudaPrimaryContext>> context = CudaPrimaryContext::retain(cuda, device);
  if (!context.ok()) return context.error();
  return std::shared_ptr<CudaDevice>(
      new CudaDevice(*context, ordinal, model, std::move(openDirect)));
}

CudaDevice::CudaDevice(std::shared_ptr<CudaPrimaryContext> context, int ordinal, std::string model,
                       OpenDirect openDirect)
    : context_(std::move(context)),
      ordinal_(ordinal),
      name_("cuda:" + std::to_string(ordinal)),
      model_(std::move(model)),
      openDirect_(std::move(openDirect)) {}

Result<std::shared_ptr<MemoryRegion>> CudaDevice::allocate(std::uint64_t bytes) {
  if (bytes == 0) return Error{ErrorCode::kInvalidArgument, "no memory of 0 bytes is allocated"};
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status().error();
  std::uint64_t address = 0;
  if (const int result = context_->cuda().memoryAllocate(&address, bytes); result != kCudaSuccess) {
    return cudaError(context_->cuda(), "cuMemAlloc", result)
        .within(name_ + ", " + std::to_string(bytes) + " bytes");
  }
  return MemoryRegion::gpu(address, bytes, std::make_shared<Allocation>(context_, address));
}

Result<std::shared_ptr<MemoryRegion>> CudaDevice::adopt(std::uint64_t address, std::uint64_t bytes,
                                                        std::shared_ptr<const void> owner) {
  const Status valid = checkRange(address, bytes);
  if (!valid.ok()) return valid.error();
  return MemoryRegion::gpu(address, bytes, std::move(owner));
}

Status CudaDevice::check(const MemoryRegion& region) {
  if (region.isHost()) {
    return Error{ErrorCode::kInvalidArgument, "the memory is the host's, not that of " + name_};
  }
  return checkRange(region.address(), region.size());
}

Status CudaDevice::checkRange(std::uint64_t address, std::uint64_t bytes) const {
  const CudaFunctions& cuda = context_->cuda();
  const auto wrong = [&](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, "the memory at " + hex(address) + " " + why};
  };
  if (bytes == 0 || address + bytes < address) return wrong("has an impossible size");
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  // Memory that is mapped in pieces (cuMemMap, expandable segments of PyTorch) is several ranges.
  for (std::uint64_t at = address; at < address + bytes;) {
    unsigned type = 0;
    int ordinal = -1;
    std::uint64_t start = 0;
    std::size_t size = 0;
    if (cuda.pointerGetAttribute(&type, kCudaPointerMemoryType, at) != kCudaSuccess) {
      return wrong(at == address ? "is not known to CUDA: it may have been freed"
                                 : "is shorter than " + std::to_string(bytes) + " bytes");
    }
    if (type != kCudaMemoryTypeDevice) return wrong("is not memory of a GPU");
    if (const int result = cuda.pointerGetAttribute(&ordinal, kCudaPointerDeviceOrdinal, at);
        result != kCudaSuccess) {
      return cudaError(cuda, "cuPointerGetAttribute", result);
    }
    if (ordinal != ordinal_) return wrong("belongs to cuda:" + std::to_string(ordinal));
    if (cuda.pointerGetAttribute(&start, kCudaPointerRangeStart, at) != kCudaSuccess ||
        cuda.pointerGetAttribute(&size, kCudaPointerRangeSize, at) != kCudaSuccess || start > at ||
        start + size <= at) {
      return wrong("has no known extent");
    }
    at = start + size;
  }
  return {};
}

Result<std::unique_ptr<PinnedMemory>> CudaDevice::pin(std::size_t bytes) {
  return pinCudaMemory(context_, bytes);
}

Result<std::unique_ptr<CopyStream>> CudaDevice::stream() { return makeCudaStream(context_); }

Result<std::shared_ptr<DirectFiles>> CudaDevice::directFiles() {
  const std::lock_guard lock(mutex_);
  if (!direct_.has_value()) direct_.emplace(openDirect_(context_));
  return *direct_;
}

Status CudaDevice::waitFor(std::uint64_t event) {
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status();
  const CudaFunctions& cuda = context_->cuda();
  auto* const handle = reinterpret_cast<CudaEvent>(event);  // NOLINT(performance-no-int-to-ptr)
  const int result = cuda.eventSynchronize(handle);
  return result == kCudaSuccess ? Status() : cudaError(cuda, "cuEventSynchronize", result);
}

Result<Device::DmaBuf> CudaDevice::exportDmaBuf(const MemoryRegion& region) {
  const CudaFunctions& cuda = context_->cuda();
  if (const Status valid = check(region); !valid.ok()) return valid.error();
  int supported = 0;
  if (cuda.memoryGetHandleForAddressRange == nullptr ||
      cuda.deviceGetAttribute(&supported, kCudaDeviceDmaBufSupported, context_->device()) !=
          kCudaSuccess ||
      supported == 0) {
    return Error{ErrorCode::kUnsupported,
                 name_ +
                     " exports no memory by dma-buf: this takes the open kernel modules of "
                     "driver 515 or later and Linux 5.12"};
  }
  const std::uint64_t start = region.address() / kHostPage * kHostPage;
  const std::uint64_t end =
      (region.address() + region.size() + kHostPage - 1) / kHostPage * kHostPage;
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status().error();
  int descriptor = -1;
  if (const int result = cuda.memoryGetHandleForAddressRange(&descriptor, start, end - start,
                                                             kCudaRangeHandleDmaBuf, 0);
      result != kCudaSuccess) {
    return cudaError(cuda, "cuMemGetHandleForAddressRange", result);
  }
  return DmaBuf{OwnedFd(descriptor), region.address() - start};
}

}  // namespace hearth
