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
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
