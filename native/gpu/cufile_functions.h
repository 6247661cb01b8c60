// The functions of cuFile (libcufile) that Hearth calls, as a table that is filled at run time. The
// declarations follow cufile.h of cuFile 1.14 (CUDA 12.9) and 1.20 (CUDA 13), which agree on them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "base/dynamic_library.h"
#include "base/result.h"

namespace hearth {

// CUfileError_t: a CUfileOpError (5000 + n), and a CUresult when that is kCufileCudaDriverError.
struct CufileStatus {
  int code;
  int cuda;
};
inline constexpr int kCufileSuccess = 0;
inline constexpr int kCufileDriverNotInitialized = 5001;
inline constexpr int kCufileCudaDriverError = 5011;
inline constexpr int kCufileInvalidValue = 5022;
inline constexpr int kCufileIoNotSupported = 5008;
inline constexpr int kCufileDirectIoNotSet = 5020;
inline constexpr int kCufileMemoryAlreadyRegistered = 5023;
inline constexpr int kCufileMemoryNotRegistered = 5024;
inline constexpr int kCufileHandleNotRegistered = 5027;
inline constexpr int kCufileSetupError = 5033;

// CUfileDrvProps_t.
struct CufileProperties {
  struct {
    unsigned majorVersion, minorVersion;
    std::size_t pollThresholdKb, maxDirectIoKb;
    unsigned statusFlags, controlFlags;
  } nvidiaFs;
  unsigned features, maxDeviceCacheKb, perBufferCacheKb, maxPinnedKb, maxBatch, batchTimeoutMs;
  unsigned reserved[64];  // a later release may write more
};
// Bits of statusFlags, controlFlags and features.
inline constexpr unsigned kCufileNvme = 1U << 4;
inline constexpr unsigned kCufileNvmePeerToPeer = 1U << 11;  // until 1.14
inline constexpr unsigned kCufileCompatibilityAllowed = 1U << 1;
inline constexpr unsigned kCufilePeerToPeer = 1U << 4;  // since 1.20
// True: cuFile reaches NVMe by PCI P2PDMA.
[[nodiscard]] inline bool isPeerToPeer(const CufileProperties& properties) {
  return (properties.nvidiaFs.statusFlags & kCufileNvmePeerToPeer) != 0 ||
         (properties.features & kCufilePeerToPeer) != 0;
}
// CUFileBoolConfigParameter_t.
inline constexpr int kCufileAllowCompatibility = 1;
inline constexpr int kCufileForceCompatibility = 2;
inline constexpr int kCufileUsePeerToPeer = 7;

// CUfileDescr_t of a descriptor of this process.
struct CufileDescription {
  int type;
  union {
    int descriptor;
    void* handle;
  };
  const void* operations;
};
inline constexpr int kCufileOpaqueDescriptor = 1;

using CufileHandle = void*;

struct CufileFunctions {
  CufileStatus (*driverOpen)();
  CufileStatus (*driverClose)();
  CufileStatus (*driverGetProperties)(CufileProperties* properties);
  CufileStatus (*handleRegister)(CufileHandle* handle, CufileDescription* description);
  void (*handleDeregister)(CufileHandle handle);
  CufileStatus (*bufferRegister)(const void* address, std::size_t bytes, int flags);
  CufileStatus (*bufferDeregister)(const void* address);
  // Bytes moved, or -1 with errno, or -CUfileOpError.
  ssize_t (*read)(CufileHandle handle, void* base, std::size_t bytes, off_t fileOffset,
                  off_t baseOffset);
  ssize_t (*write)(CufileHandle handle, const void* base, std::size_t bytes, off_t fileOffset,
                   off_t baseOffset);
  // 1140 is 1.14. Null before 1.7.
  CufileStatus (*getVersion)(int* version);
  // Before driverOpen(). Null before 1.14.
  CufileStatus (*setParameterBool)(int parameter, bool value);
};

// The functions of the library; kUnsupported, with the name of a function that it lacks. Any
// thread.
[[nodiscard]] Result<CufileFunctions> findCufile(const DynamicLibrary& library);

// Loads the library, which stays in the process. kNotFound, kUnsupported; the message gives the
// next step. Any thread.
[[nodiscard]] Result<CufileFunctions> loadCufile(const std::string& name);

// "cuFileHandleRegister failed: ... (5027)". kUnsupported when the path cannot exist, kIoError
// otherwise.
[[nodiscard]] Error cufileError(const char* call, CufileStatus status);
// The same for the answer of a read or a write, which is negative.
[[nodiscard]] Error cufileIoError(const char* call, ssize_t answer, int error);

}  // namespace hearth
