#include "gpu/cuda_functions.h"

#include "base/dynamic_library.h"

namespace hearth {
namespace {

struct Meaning {
  ErrorCode code;
  const char* advice;
};

Meaning meaningOf(int result) {
  switch (result) {
    case kCudaInvalidValue:
      return {ErrorCode::kInvalidArgument, ""};
    case kCudaOutOfMemory:
      return {ErrorCode::kOutOfSpace,
              "; free memory of the GPU or, for pinned memory, of the host (ulimit -l)"};
    case kCudaNoDevice:
    case kCudaInvalidDevice:
      return {ErrorCode::kNotFound, "; look at `nvidia-smi -L` and CUDA_VISIBLE_DEVICES"};
    case kCudaInsufficientDriver:
    case kCudaSystemDriverMismatch:
      return {ErrorCode::kUnavailable,
              "; the library must belong to the loaded kernel module: compare "
              "/proc/driver/nvidia/version with `nvidia-smi`"};
    case kCudaNotInitialized:
      return {ErrorCode::kUnavailable,
              "; a process that called CUDA before fork() cannot use it in the child"};
    case kCudaSystemNotReady:
      return {ErrorCode::kUnavailable, "; start nvidia-fabricmanager on a machine with NVSwitch"};
    case kCudaInvalidContext:
      return {ErrorCode::kUnavailable, "; the context of the GPU is gone: start the process again"};
    case kCudaNotSupported:
      return {ErrorCode::kUnsupported, ""};
    default:
      // From CUDA_ERROR_ILLEGAL_ADDRESS to CUDA_ERROR_LAUNCH_FAILED the context is lost.
      if (result >= kCudaIllegalAddress && result < kCudaNotSupported) {
        return {ErrorCode::kUnavailable,
                "; a kernel broke the context of the GPU: start the process again"};
      }
      return {ErrorCode::kIoError, "; look at `dmesg` for Xid messages"};
  }
}

}  // namespace

Result<CudaFunctions> findCuda(const DynamicLibrary& library) {
  CudaFunctions cuda{};
  for (const Status& status :
       {library.load("cuInit", cuda.init),
        library.load("cuDriverGetVersion", cuda.driverGetVersion),
        library.load("cuDeviceGetCount", cuda.deviceGetCount),
        library.load("cuDeviceGet", cuda.deviceGet),
        library.load("cuDeviceGetName", cuda.deviceGetName),
        library.load("cuDeviceTotalMem_v2", cuda.deviceTotalMemory),
        library.load("cuDeviceGetAttribute", cuda.deviceGetAttribute),
        library.load("cuGetErrorString", cuda.getErrorString),
        library.load("cuDevicePrimaryCtxRetain", cuda.primaryContextRetain),
        library.load("cuDevicePrimaryCtxRelease_v2", cuda.primaryContextRelease),
        library.load("cuCtxPushCurrent_v2", cuda.contextPushCurrent),
        library.load("cuCtxPopCurrent_v2", cuda.contextPopCurrent),
        library.load("cuMemAlloc_v2", cuda.memoryAllocate),
        library.load("cuMemFree_v2", cuda.memoryFree),
        library.load("cuMemHostAlloc", cuda.hostAllocate),
        library.load("cuMemFreeHost", cuda.hostFree),
        library.load("cuPointerGetAttribute", cuda.pointerGetAttribute),
        library.load("cuStreamCreate", cuda.streamCreate),
        library.load("cuStreamSynchronize", cuda.streamSynchronize),
        library.load("cuStreamDestroy_v2", cuda.streamDestroy),
        library.load("cuMemcpyHtoDAsync_v2", cuda.copyToDevice),
        library.load("cuMemcpyDtoHAsync_v2", cuda.copyToHost),
        library.load("cuEventCreate", cuda.eventCreate),
        library.load("cuEventRecord", cuda.eventRecord),
        library.load("cuEventSynchronize", cuda.eventSynchronize),
        library.load("cuEventDestroy_v2", cuda.eventDestroy)}) {
    if (!status.ok()) return status.error();
  }
  if (!library.load("cuMemGetHandleForAddressRange", cuda.memoryGetHandleForAddressRange).ok()) {
    cuda.memoryGetHandleForAddressRange = nullptr;
  }
  return cuda;
}

Result<CudaFunctions> loadCuda(const std::string& name) {
  Result<DynamicLibrary> library = DynamicLibrary::open(name);
  if (!library.ok()) {
    return Error{library.code(),
                 library.error().message +
                     "; install the NVIDIA driver, in a container use the NVIDIA runtime"};
  }
  Result<CudaFunctions> cuda = findCuda(*library);
  if (!cuda.ok()) {
    return Error{ErrorCode::kUnsupported,
                 cuda.error().message + "; update the NVIDIA driver to 525 (CUDA 12) or later"};
  }
  library->keepLoaded();
  return cuda;
}

std::string cudaFailure(const CudaFunctions& cuda, const char* call, int result) {
  const char* text = nullptr;
  if (cuda.getErrorString(result, &text) != kCudaSuccess || text == nullptr) text = "unknown error";
  return std::string(call) + " failed: " + text + " (" + std::to_string(result) + ")";
}

Error cudaError(const CudaFunctions& cuda, const char* call, int result) {
  const Meaning meaning = meaningOf(result);
  return {meaning.code, cudaFailure(cuda, call, result) + meaning.advice};
}

}  // namespace hearth
