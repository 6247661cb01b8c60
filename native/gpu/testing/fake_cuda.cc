// The functions of libcuda over FakeGpu.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "gpu/testing/fake_gpu.h"

namespace hearth::testing_gpu {
namespace {

constexpr std::size_t kAllocationAlignment = 4096;
constexpr std::size_t kHostPage = 4096;

// Devices whose contexts this thread has pushed.
thread_local std::vector<int> contexts;

int deviceOfContext(CudaContext context) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
}

template <class Handle>
Handle handleOf(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

}  // namespace

int FakeGpu::currentDevice(const char* call) {
  if (!contexts.empty()) return contexts.back();
  breach(std::string(call) + " without a current context");
  return -1;
}

struct FakeCuda {
  static FakeGpu& gpu() { return FakeGpu::instance(); }

  static int init(unsigned) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuInit");
    if (result == 0) gpu().started_ = true;
    return result;
  }
  static int driverGetVersion(int* version) {
    FakeGpu::Lock lock(gpu().mutex_);
    *version = gpu().options_.cudaVersion;
    return gpu().enter(lock, "cuDriverGetVersion");
  }
  static int deviceGetCount(int* count) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (!gpu().started_) return kCudaNotInitialized;
    *count = gpu().options_.devices;
    return gpu().enter(lock, "cuDeviceGetCount");
  }
  static int deviceGet(int* device, int ordinal) {
    FakeGpu::Lock lock(gpu().mutex_);
    *device = ordinal;
    return gpu().enter(lock, "cuDeviceGet");
  }
  static int deviceGetName(char* name, int, int) {
    FakeGpu::Lock lock(gpu().mutex_);
    std::strcpy(name, "Fake GPU");
    return gpu().enter(lock, "cuDeviceGetName");
  }
  static int deviceTotalMemory(std::size_t* bytes, int) {
    FakeGpu::Lock lock(gpu().mutex_);
    *bytes = gpu().options_.memoryBytes;
    return gpu().enter(lock, "cuDeviceTotalMem");
  }
  static int deviceGetAttribute(int* value, int attribute, int) {
    FakeGpu::Lock lock(gpu().mutex_);
    *value = attribute == kCudaDeviceDmaBufSupported && gpu().options_.hasDmaBuf ? 1 : 0;
    return gpu().enter(lock, "cuDeviceGetAttribute");
  }
  static int getErrorString(int, const char** text) {
    *text = "as the test wants it";
    return 0;
  }

  static int primaryContextRetain(CudaContext* context, int device) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (const int result = gpu().enter(lock, "cuDevicePrimaryCtxRetain"); result != 0) {
      return result;
    }
    ++gpu().devices_[static_cast<std::size_t>(device)].retained;
    *context = handleOf<CudaContext>(static_cast<std::uintptr_t>(device) + 1);
    return 0;
  }
  static int primaryContextRelease(int device) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuDevicePrimaryCtxRelease", false);
    FakeGpu::Device& of = gpu().devices_[static_cast<std::size_t>(device)];
    if (--of.retained < 0) gpu().breach("a context is released that nobody retains");
    if (of.retained > 0) return result;
    if (!of.allocations.empty()) gpu().breach("a context ends before its memory");
    for (const auto& [handle, stream] : gpu().streams_) {
      if (stream.device == device) gpu().breach("a context ends before its stream");
    }
    return result;
  }
  static int contextPushCurrent(CudaContext context) {
    FakeGpu::Lock lock(gpu().mutex_);
    // Works also when the context is lost: it is a matter of the thread.
    const int result = gpu().enter(lock, "cuCtxPushCurrent", false);
    const int device = deviceOfContext(context);
    if (gpu().devices_[static_cast<std::size_t>(device)].retained == 0) {
      gpu().breach("a context is made current after its end");
    }
    if (result != 0) return result;
    contexts.push_back(device);
    ++gpu().scopes_;
    return 0;
  }
  static int contextPopCurrent(CudaContext*) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuCtxPopCurrent", false);
    if (contexts.empty()) {
      gpu().breach("a context is popped that was not pushed");
      return kCudaInvalidContext;
    }
    contexts.pop_back();
    --gpu().scopes_;
    return result;
  }

  static int memoryAllocate(std::uint64_t* address, std::size_t bytes) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int device = gpu().currentDevice("cuMemAlloc");
    if (const int result = gpu().enter(lock, "cuMemAlloc"); result != 0) return result;
    FakeGpu::Device& of = gpu().devices_[static_cast<std::size_t>(device)];
    auto at = reinterpret_cast<std::uint64_t>(of.window);
    for (const auto& [start, size] : of.allocations) {
      if (start - at >= bytes) break;
      at = (start + size + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
    }
    const std::uint64_t end =
        reinterpret_cast<std::uint64_t>(of.window) + gpu().options_.memoryBytes;
    if (bytes > end - at) return kCudaOutOfMemory;
    of.allocations[at] = bytes;
    *address = at;
    return 0;
  }
  static int memoryFree(std::uint64_t address) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuMemFree", false);
    FakeGpu::Device* const device = gpu().deviceOf(address);
    if (device == nullptr || !device->allocations.contains(address)) {
      gpu().breach("memory is freed that is not allocated");
      return kCudaInvalidValue;
    }
    const std::size_t bytes = device->allocations[address];
    if (gpu().isQueued(address, bytes)) gpu().breach("GPU memory is freed in flight");
    if (gpu().registered_.contains(address)) {
      gpu().breach("GPU memory is freed while cuFile knows it");
    }
    device->allocations.erase(address);
    return result;
  }
  static int hostAllocate(void** memory, std::size_t bytes, unsigned) {
    FakeGpu::Lock lock(gpu().mutex_);
    gpu().currentDevice("cuMemHostAlloc");
    if (const int result = gpu().enter(lock, "cuMemHostAlloc"); result != 0) return result;
    std::size_t taken = bytes;
    for (const auto& [each, size] : gpu().pinned_) taken += size;
    if (taken > gpu().options_.pinnedLimit) return kCudaOutOfMemory;
    *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    gpu().pinned_[static_cast<std::byte*>(*memory)] = bytes;
    return 0;
  }
  static int hostFree(void* memory) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuMemFreeHost", false);
    const auto found = gpu().pinned_.find(static_cast<std::byte*>(memory));
    if (found == gpu().pinned_.end()) {
      gpu().breach("pinned memory is freed that is not allocated");
      return kCudaInvalidValue;
    }
    if (gpu().isQueued(reinterpret_cast<std::uint64_t>(memory), found->second)) {
      gpu().breach("pinned memory is freed in flight");
    }
    munmap(memory, found->second);
    gpu().pinned_.erase(found);
    return result;
  }
  static int pointerGetAttribute(void* value, int attribute, std::uint64_t address) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (const int result = gpu().enter(lock, "cuPointerGetAttribute"); result != 0) return result;
    FakeGpu::Device* const device = gpu().deviceOf(address);
    if (device == nullptr || !gpu().isAllocated(address, 1)) return kCudaInvalidValue;
    const auto& [start, size] = *std::prev(device->allocations.upper_bound(address));
    if (attribute == kCudaPointerMemoryType) {
      *static_cast<unsigned*>(value) = kCudaMemoryTypeDevice;
    } else if (attribute == kCudaPointerDeviceOrdinal) {
      *static_cast<int*>(value) = static_cast<int>(device - gpu().devices_.data());
    } else if (attribute == kCudaPointerRangeStart) {
      *static_cast<std::uint64_t*>(value) = start;
    } else if (attribute == kCudaPointerRangeSize) {
      *static_cast<std::size_t*>(value) = size;
    } else {
      return kCudaInvalidValue;
    }
    return 0;
  }

  static int streamCreate(CudaStream* stream, unsigned) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int device = gpu().currentDevice("cuStreamCreate");
    if (const int result = gpu().enter(lock, "cuStreamCreate"); result != 0) return result;
    *stream = handleOf<CudaStream>(gpu().nextHandle_++);
    gpu().streams_[*stream].device = device;
    return 0;
  }
  static int streamSynchronize(CudaStream stream) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (const int result = gpu().enter(lock, "cuStreamSynchronize"); result != 0) {
      gpu().loseContexts();
      return result;
    }
    gpu().run(gpu().streams_.at(stream), nullptr);
    return 0;
  }
  static int streamDestroy(CudaStream stream) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuStreamDestroy", false);
    if (!gpu().streams_.at(stream).queue.empty()) gpu().breach("a stream ends with copies queued");
    gpu().streams_.erase(stream);
    return result;
  }
  static int copy(const char* call, bool toDevice, std::uint64_t address, std::byte* memory,
                  std::size_t bytes, CudaStream stream) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int device = gpu().currentDevice(call);
    if (const int result = gpu().enter(lock, call); result != 0) return result;
    const auto found = gpu().streams_.find(stream);
    if (found == gpu().streams_.end() || found->second.device != device) {
      gpu().breach(std::string(call) + " on a stream of another context");
      return kCudaInvalidContext;
    }
    if (!gpu().isPinned(memory, bytes)) gpu().breach(std::string(call) + " of pageable memory");
    if (!gpu().isAllocated(address, bytes)) return kCudaInvalidValue;
    found->second.queue.push_back({toDevice, address, memory, bytes, nullptr});
    return 0;
  }
  static int copyToDevice(std::uint64_t address, const void* memory, std::size_t bytes,
                          CudaStream stream) {
    return copy("cuMemcpyHtoDAsync", true, address,
                static_cast<std::byte*>(const_cast<void*>(memory)), bytes, stream);
  }
  static int copyToHost(void* memory, std::uint64_t address, std::size_t bytes, CudaStream stream) {
    return copy("cuMemcpyDtoHAsync", false, address, static_cast<std::byte*>(memory), bytes,
                stream);
  }
  static int eventCreate(CudaEvent* event, unsigned) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int device = gpu().currentDevice("cuEventCreate");
    if (const int result = gpu().enter(lock, "cuEventCreate"); result != 0) return result;
    *event = handleOf<CudaEvent>(gpu().nextHandle_++);
    gpu().events_[*event] = {device};
    return 0;
  }
  static int eventRecord(CudaEvent event, CudaStream stream) {
    FakeGpu::Lock lock(gpu().mutex_);
    gpu().currentDevice("cuEventRecord");
    if (const int result = gpu().enter(lock, "cuEventRecord"); result != 0) return result;
    gpu().events_.at(event).recordedOn = stream;
    gpu().streams_.at(stream).queue.push_back({false, 0, nullptr, 0, event});
    return 0;
  }
  static int eventSynchronize(CudaEvent event) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (const int result = gpu().enter(lock, "cuEventSynchronize"); result != 0) {
      gpu().loseContexts();
      return result;
    }
    const FakeGpu::Event& of = gpu().events_.at(event);
    if (of.recordedOn != nullptr) gpu().run(gpu().streams_.at(of.recordedOn), event);
    return 0;
  }
  static int eventDestroy(CudaEvent event) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuEventDestroy", false);
    gpu().events_.erase(event);
    return result;
  }
  static int memoryGetHandleForAddressRange(void* handle, std::uint64_t address, std::size_t bytes,
                                            int type, unsigned long long flags) {
    FakeGpu::Lock lock(gpu().mutex_);
    gpu().currentDevice("cuMemGetHandleForAddressRange");
    if (const int result = gpu().enter(lock, "cuMemGetHandleForAddressRange"); result != 0) {
      return result;
    }
    if (type != kCudaRangeHandleDmaBuf || flags != 0 || (address | bytes) % kHostPage != 0) {
      gpu().breach("a dma-buf is asked for with wrong arguments");
      return kCudaInvalidValue;
    }
    *static_cast<int*>(handle) = memfd_create("fake dma-buf", MFD_CLOEXEC);
    return 0;
  }
};

CudaFunctions FakeGpu::cuda() {
  CudaFunctions cuda{};
  cuda.init = FakeCuda::init;
  cuda.driverGetVersion = FakeCuda::driverGetVersion;
  cuda.deviceGetCount = FakeCuda::deviceGetCount;
  cuda.deviceGet = FakeCuda::deviceGet;
  cuda.deviceGetName = FakeCuda::deviceGetName;
  cuda.deviceTotalMemory = FakeCuda::deviceTotalMemory;
  cuda.deviceGetAttribute = FakeCuda::deviceGetAttribute;
  cuda.getErrorString = FakeCuda::getErrorString;
  cuda.primaryContextRetain = FakeCuda::primaryContextRetain;
  cuda.primaryContextRelease = FakeCuda::primaryContextRelease;
  cuda.contextPushCurrent = FakeCuda::contextPushCurrent;
  cuda.contextPopCurrent = FakeCuda::contextPopCurrent;
  cuda.memoryAllocate = FakeCuda::memoryAllocate;
  cuda.memoryFree = FakeCuda::memoryFree;
  cuda.hostAllocate = FakeCuda::hostAllocate;
  cuda.hostFree = FakeCuda::hostFree;
  cuda.pointerGetAttribute = FakeCuda::pointerGetAttribute;
  cuda.streamCreate = FakeCuda::streamCreate;
  cuda.streamSynchronize = FakeCuda::streamSynchronize;
  cuda.streamDestroy = FakeCuda::streamDestroy;
  cuda.copyToDevice = FakeCuda::copyToDevice;
  cuda.copyToHost = FakeCuda::copyToHost;
  cuda.eventCreate = FakeCuda::eventCreate;
  cuda.eventRecord = FakeCuda::eventRecord;
  cuda.eventSynchronize = FakeCuda::eventSynchronize;
  cuda.eventDestroy = FakeCuda::eventDestroy;
  cuda.memoryGetHandleForAddressRange = FakeCuda::memoryGetHandleForAddressRange;
  return cuda;
}

}  // namespace hearth::testing_gpu
