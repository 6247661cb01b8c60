// libibverbs, libcuda and libcufile in one, as far as the probes call them. The build makes one
// library for each FAULT_*.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace {

// Where each driver starts; what the faults are about.
int start(int failure) {
#if defined(FAULT_HANG)
  for (;;) pause();
#elif defined(FAULT_CRASH)
  raise(SIGSEGV);
#endif
#if defined(FAULT_INIT)
  return failure;
#else
  static_cast<void>(failure);
  return 0;
#endif
}

struct CufileError {
  int code, cuda;
};

}  // namespace

extern "C" {

static char device;
static void* list[] = {&device, nullptr};

void** ibv_get_device_list(int* count) {
  errno = ENOSYS;
  if (start(1) != 0) return nullptr;
  *count = 1;
  return list;
}
void ibv_free_device_list(void**) {}
const char* ibv_get_device_name(void*) { return "fake_0"; }
void* ibv_open_device(void*) { return &device; }
#if !defined(FAULT_SYMBOL)
int ibv_close_device(void*) { return 0; }
#endif

// NOLINTBEGIN(readability-identifier-naming)
int cuInit(unsigned) { return start(100); }
int cuDriverGetVersion(int* version) { return *version = 12040, 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGet(int* out, int ordinal) { return *out = ordinal, 0; }
int cuDeviceGetName(char* name, int, int) { return std::strcpy(name, "Fake GPU"), 0; }
int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = 1UL << 37, 0; }
#if !defined(FAULT_SYMBOL)
int cuGetErrorString(int, const char** text) { return *text = "no device was found", 0; }
#endif

CufileError cuFileDriverOpen() {
  const int code = start(5001);
  return {code, 0};
}
CufileError cuFileDriverGetProperties(void* properties) {
  unsigned head[2] = {2, 19};
  std::memcpy(properties, head, sizeof head);
  const unsigned nvme = 1U << 4;
  std::memcpy(static_cast<char*>(properties) + 24, &nvme, sizeof nvme);
  return {0, 0};
}
CufileError cuFileDriverClose() { return {0, 0}; }
CufileError cuFileHandleRegister(void**, void*) { return {0, 0}; }
#if !defined(FAULT_SYMBOL)
CufileError cuFileBufRegister(const void*, std::size_t, int) { return {0, 0}; }
#endif

// Not called by a probe; a library without them is of no use.
#define NOT_CALLED(name) \
  int name() { return 0; }
NOT_CALLED(cuDeviceGetAttribute)
NOT_CALLED(cuDevicePrimaryCtxRetain)
NOT_CALLED(cuDevicePrimaryCtxRelease_v2)
NOT_CALLED(cuCtxPushCurrent_v2)
NOT_CALLED(cuCtxPopCurrent_v2)
NOT_CALLED(cuMemAlloc_v2)
NOT_CALLED(cuMemFree_v2)
NOT_CALLED(cuMemHostAlloc)
NOT_CALLED(cuMemFreeHost)
NOT_CALLED(cuPointerGetAttribute)
NOT_CALLED(cuStreamCreate)
NOT_CALLED(cuStreamSynchronize)
NOT_CALLED(cuStreamDestroy_v2)
NOT_CALLED(cuMemcpyHtoDAsync_v2)
NOT_CALLED(cuMemcpyDtoHAsync_v2)
NOT_CALLED(cuEventCreate)
NOT_CALLED(cuEventRecord)
NOT_CALLED(cuEventSynchronize)
NOT_CALLED(cuEventDestroy_v2)
NOT_CALLED(cuFileHandleDeregister)
NOT_CALLED(cuFileBufDeregister)
NOT_CALLED(cuFileRead)
NOT_CALLED(cuFileWrite)
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
