// The two libraries as one shared object, for programs that load them by name. $FAKE_GPU names a
// fault: "no-gpu", "no-storage" (cuFile would only open in compatibility mode), "no-file-system"
// (no file can be registered), "hang" and "crash" (of cuFileDriverOpen).
#include <signal.h>

#include <cstdlib>
#include <string>

#include "gpu/testing/fake_gpu.h"

using hearth::CudaContext;
using hearth::CudaEvent;
using hearth::CudaStream;
using hearth::CufileDescription;
using hearth::CufileHandle;
using hearth::CufileProperties;
using hearth::CufileStatus;
using hearth::testing_gpu::FakeGpu;
using hearth::testing_gpu::FakeOptions;

namespace {

std::string fault() {
  const char* const name = std::getenv("FAKE_GPU");
  return name == nullptr ? "" : name;
}

bool start() {
  FakeOptions options;
  options.memoryBytes = std::uint64_t{16} << 30;
  if (fault() == "no-storage") options.storage = FakeOptions::Storage::kCompatibilityOnly;
  if (fault() == "no-gpu") options.failing["cuInit"] = hearth::kCudaNoDevice;
  if (fault() == "no-file-system") {
    options.failing["cuFileHandleRegister"] = hearth::kCufileIoNotSupported;
  }
  FakeGpu::instance().reset(options);
  if (fault() == "hang") FakeGpu::instance().hang("cuFileDriverOpen");
  return true;
}

const bool started = start();
const hearth::CudaFunctions cuda = FakeGpu::cuda();
const hearth::CufileFunctions cufile = FakeGpu::cufile();

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

int cuInit(unsigned flags) { return cuda.init(flags); }
int cuDriverGetVersion(int* version) { return cuda.driverGetVersion(version); }
int cuDeviceGetCount(int* count) { return cuda.deviceGetCount(count); }
int cuDeviceGet(int* device, int ordinal) { return cuda.deviceGet(device, ordinal); }
int cuDeviceGetName(char* name, int length, int device) {
  return cuda.deviceGetName(name, length, device);
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return cuda.deviceTotalMemory(bytes, device);
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return cuda.deviceGetAttribute(value, attribute, device);
}
int cuGetErrorString(int error, const char** text) { return cuda.getErrorString(error, text); }
int cuDevicePrimaryCtxRetain(CudaContext* context, int device) {
  return cuda.primaryContextRetain(context, device);
}
int cuDevicePrimaryCtxRelease_v2(int device) { return cuda.primaryContextRelease(device); }
int cuCtxPushCurrent_v2(CudaContext context) { return cuda.contextPushCurrent(context); }
int cuCtxPopCurrent_v2(CudaContext* context) { return cuda.contextPopCurrent(context); }
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  return cuda.memoryAllocate(address, bytes);
}
int cuMemFree_v2(std::uint64_t address) { return cuda.memoryFree(address); }
int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return cuda.hostAllocate(memory, bytes, flags);
}
int cuMemFreeHost(void* memory) { return cuda.hostFree(memory); }
int cuPointerGetAttribute(void* value, int attribute, std::uint64_t address) {
  return cuda.pointerGetAttribute(value, attribute, address);
}
int cuStreamCreate(CudaStream* stream, unsigned flags) { return cuda.streamCreate(stream, flags); }
int cuStreamSynchronize(CudaStream stream) { return cuda.streamSynchronize(stream); }
int cuStreamDestroy_v2(CudaStream stream) { return cuda.streamDestroy(stream); }
int cuMemcpyHtoDAsync_v2(std::uint64_t address, const void* memory, std::size_t bytes,
                         CudaStream stream) {
  return cuda.copyToDevice(address, memory, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* memory, std::uint64_t address, std::size_t bytes,
                         CudaStream stream) {
  return cuda.copyToHost(memory, address, bytes, stream);
}
int cuEventCreate(CudaEvent* event, unsigned flags) { return cuda.eventCreate(event, flags); }
int cuEventRecord(CudaEvent event, CudaStream stream) { return cuda.eventRecord(event, stream); }
int cuEventSynchronize(CudaEvent event) { return cuda.eventSynchronize(event); }
int cuEventDestroy_v2(CudaEvent event) { return cuda.eventDestroy(event); }
int cuMemGetHandleForAddressRange(void* handle, std::uint64_t address, std::size_t bytes, int type,
                                  unsigned long long flags) {
  return cuda.memoryGetHandleForAddressRange(handle, address, bytes, type, flags);
}

CufileStatus cuFileDriverOpen() {
  if (fault() == "crash") raise(SIGSEGV);
  return cufile.driverOpen();
}
CufileStatus cuFileDriverClose_v2() { return cufile.driverClose(); }
CufileStatus cuFileDriverGetProperties(CufileProperties* properties) {
  return cufile.driverGetProperties(properties);
}
CufileStatus cuFileHandleRegister(CufileHandle* handle, CufileDescription* description) {
  return cufile.handleRegister(handle, description);
}
void cuFileHandleDeregister(CufileHandle handle) { cufile.handleDeregister(handle); }
CufileStatus cuFileBufRegister(const void* address, std::size_t bytes, int flags) {
  return cufile.bufferRegister(address, bytes, flags);
}
CufileStatus cuFileBufDeregister(const void* address) { return cufile.bufferDeregister(address); }
ssize_t cuFileRead(CufileHandle handle, void* base, std::size_t bytes, off_t fileOffset,
                   off_t baseOffset) {
  return cufile.read(handle, base, bytes, fileOffset, baseOffset);
}
ssize_t cuFileWrite(CufileHandle handle, const void* base, std::size_t bytes, off_t fileOffset,
                    off_t baseOffset) {
  return cufile.write(handle, base, bytes, fileOffset, baseOffset);
}
CufileStatus cuFileGetVersion(int* version) { return cufile.getVersion(version); }
CufileStatus cuFileSetParameterBool(int parameter, bool value) {
  return cufile.setParameterBool(parameter, value);
}

// For tests: how often the contract of either library was broken so far.
std::size_t fakeGpuBreaches() { return FakeGpu::instance().breaches().size(); }
// Later calls of that name block until fakeGpuRelease().
void fakeGpuHang(const char* call) { FakeGpu::instance().hang(call); }
void fakeGpuRelease() { FakeGpu::instance().release(); }
int fakeGpuHanging() { return FakeGpu::instance().hanging(); }
// Pieces of pinned memory that were not given back.
std::size_t fakeGpuPinned() { return FakeGpu::instance().pinnedPieces(); }

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
