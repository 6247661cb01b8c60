// The functions of the CUDA driver (libcuda) that Hearth calls, as a table that is filled at run
// time. The declarations follow NVIDIA's documentation of the CUDA driver API, CUDA 12; a test puts
// functions of its own into the table (gpu/testing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dynamic_library.h"
#include "base/result.h"

namespace hearth {

using CudaContext = struct CudaContextHandle*;
using CudaStream = struct CudaStreamHandle*;
using CudaEvent = struct CudaEventHandle*;

// CUresult.
inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaInvalidValue = 1;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaNotInitialized = 3;
inline constexpr int kCudaInsufficientDriver = 35;
inline constexpr int kCudaNoDevice = 100;
inline constexpr int kCudaInvalidDevice = 101;
inline constexpr int kCudaInvalidContext = 201;
inline constexpr int kCudaNotReady = 600;
inline constexpr int kCudaIllegalAddress = 700;
inline constexpr int kCudaNotSupported = 801;
inline constexpr int kCudaSystemNotReady = 802;
inline constexpr int kCudaSystemDriverMismatch = 803;

// CUpointer_attribute, CUmemorytype.
inline constexpr int kCudaPointerMemoryType = 2;
inline constexpr int kCudaPointerDeviceOrdinal = 9;
inline constexpr int kCudaPointerRangeStart = 11;
inline constexpr int kCudaPointerRangeSize = 12;
inline constexpr unsigned kCudaMemoryTypeDevice = 2;
// CUdevice_attribute.
inline constexpr int kCudaDeviceDmaBufSupported = 124;
// Flags of cuStreamCreate, cuEventCreate and cuMemHostAlloc; CUmemRangeHandleType.
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventBlockingSync = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaHostAllocPortable = 1;
inline constexpr int kCudaRangeHandleDmaBuf = 1;

// All functions return a CUresult.
struct CudaFunctions {
  int (*init)(unsigned flags);
  int (*driverGetVersion)(int* version);
  int (*deviceGetCount)(int* count);
  int (*deviceGet)(int* device, int ordinal);
  int (*deviceGetName)(char* name, int length, int device);
  int (*deviceTotalMemory)(std::size_t* bytes, int device);
  int (*deviceGetAttribute)(int* value, int attribute, int device);
  int (*getErrorString)(int error, const char** text);

  int (*primaryContextRetain)(CudaContext* context, int device);
  int (*primaryContextRelease)(int device);
  int (*contextPushCurrent)(CudaContext context);
  int (*contextPopCurrent)(CudaContext* context);

  int (*memoryAllocate)(std::uint64_t* address, std::size_t bytes);
  int (*memoryFree)(std::uint64_t address);
  int (*hostAllocate)(void** memory, std::size_t bytes, unsigned flags);
  int (*hostFree)(void* memory);
  int (*pointerGetAttribute)(void* value, int attribute, std::uint64_t address);

  int (*streamCreate)(CudaStream* stream, unsigned flags);
  int (*streamSynchronize)(CudaStream stream);
  int (*streamDestroy)(CudaStream stream);
  int (*copyToDevice)(std::uint64_t address, const void* memory, std::size_t bytes,
                      CudaStream stream);
  int (*copyToHost)(void* memory, std::uint64_t address, std::size_t bytes, CudaStream stream);
  int (*eventCreate)(CudaEvent* event, unsigned flags);
  int (*eventRecord)(CudaEvent event, CudaStream stream);
  int (*eventSynchronize)(CudaEvent event);
  int (*eventDestroy)(CudaEvent event);

  // Null before CUDA 11.7.
  int (*memoryGetHandleForAddressRange)(void* handle, std::uint64_t address, std::size_t bytes,
                                        int type, unsigned long long flags);
};

// The functions of the library; kUnsupported, with the name of a function that it lacks. Any
// thread.
[[nodiscard]] Result<CudaFunctions> findCuda(const DynamicLibrary& library);

// Loads the library, which stays in the process. kNotFound, kUnsupported (a function is missing:
// the driver is too old); the message gives the next step. Any thread.
[[nodiscard]] Result<CudaFunctions> loadCuda(const std::string& name);

// "cuMemAlloc failed: out of memory (2)".
[[nodiscard]] std::string cudaFailure(const CudaFunctions& cuda, const char* call, int result);

// The same as an error, with the next step where one is known.
[[nodiscard]] Error cudaError(const CudaFunctions& cuda, const char* call, int result);

// `result` as a Status.
[[nodiscard]] inline Status cudaStatus(const CudaFunctions& cuda, const char* call, int result) {
  if (result == kCudaSuccess) return {};
  return cudaError(cuda, call, result);
}

}  // namespace hearth
