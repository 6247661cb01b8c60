#include "base/dynamic_library.h"
#include "probe/probes.h"

namespace hearth {
namespace {

// cufile.h of CUDA 12 (package nvidia-cufile-cu12). The error is returned by value; `code` is a
// CUfileOpError (5000 + n), `cuda` a CUresult when code is CU_FILE_CUDA_DRIVER_ERROR.
struct CufileError {
  int code;
  int cuda;
};
struct ProbedProperties {
  struct {
    unsigned major, minor;
    std::size_t pollThreshold, maxDirectIo;
    unsigned statusFlags, controlFlags;
  } nvidiaFs;
  unsigned features, maxDeviceCache, perBufferCache, maxPinned, maxBatch, batchTimeout;
  unsigned reserved[64];  // later versions may write more
};
// Bits of statusFlags (CUfileDriverStatusFlags).
constexpr unsigned kNvme = 1U << 4;
constexpr unsigned kNvmePeerToPeer = 1U << 11;

struct ProbedFunctions {
  CufileError (*driverOpen)();
  CufileError (*driverGetProperties)(ProbedProperties* properties);
  CufileError (*driverClose)();
  // Not called here; without them the library is of no use.
  CufileError (*handleRegister)(void** handle, void* description);
  CufileError (*bufferRegister)(const void* address, std::size_t length, int flags);
};

Result<ProbedFunctions> loadCufile(const DynamicLibrary& library) {
  ProbedFunctions cufile{};
  for (const Status& status :
       {library.load("cuFileDriverOpen", cufile.driverOpen),
        library.load("cuFileDriverGetProperties", cufile.driverGetProperties),
        library.load("cuFileDriverClose", cufile.driverClose),
        library.load("cuFileHandleRegister", cufile.handleRegister),
        library.load("cuFileBufRegister", cufile.bufferRegister)}) {
    if (!status.ok()) return status.error();
  }
  return cufile;
}

Probe cufileRow(ProbeStatus status, std::string detail, std::string advice) {
  return {"cufile", status, std::move(detail), std::move(advice)};
}

constexpr const char* kBounced = "Bytes reach GPUs through host memory. ";

const char* reason(int code) {
  switch (code) {
    case 5001:
      return "the nvidia-fs driver is not loaded and compatibility mode is off";
    case 5004:
      return "the nvidia-fs driver has another version";
    case 5005:
      return "the version of the nvidia-fs driver cannot be read";
    case 5007:
      return "GPUDirect Storage does not support this platform";
    case 5010:
      return "the nvidia-fs driver refuses";
    case 5011:
      return "the CUDA driver refuses";
    case 5033:
      return "the nvidia-fs driver cannot be set up";
    default:
      return "see CUfileOpError in cufile.h";
  }
}

}  // namespace

std::vector<Probe> probeNvidiaFs(const SystemTree& tree) {
  if (const auto version = tree.text("/proc/driver/nvidia-fs/version")) {
    return {{"nvidia-fs", ProbeStatus::kOk, "loaded, " + *version, ""}};
  }
  for (const std::string& line : tree.lines("/proc/modules")) {
    if (line.starts_with("nvidia_fs ")) return {{"nvidia-fs", ProbeStatus::kOk, "loaded", ""}};
  }
  return {
      {"nvidia-fs", ProbeStatus::kMissing, "the kernel module is not loaded",
       std::string(kBounced) +
           "On a machine with GPUs install nvidia-fs (or nvidia-gds) and `modprobe nvidia-fs`."}};
}

std::vector<Probe> probeCufile(const std::string& name, const Stage& stage) {
  stage("dlopen " + name);
  const Result<DynamicLibrary> library = DynamicLibrary::open(name);
  if (!library.ok()) {
    return {cufileRow(
        ProbeStatus::kMissing, library.error().message,
        std::string(kBounced) + "On a machine with GPUs install the CUDA package libcufile.")};
  }
  const Result<ProbedFunctions> cufile = loadCufile(*library);
  if (!cufile.ok()) {
    return {cufileRow(ProbeStatus::kMissing, cufile.error().message,
                      std::string(kBounced) + "Install libcufile of CUDA 12 or later.")};
  }
  stage("cuFileDriverOpen");
  const CufileError opened = cufile->driverOpen();
  if (opened.code != 0) {
    std::string detail = "cuFileDriverOpen failed: " + std::string(reason(opened.code)) + " (" +
                         std::to_string(opened.code);
    if (opened.cuda != 0) detail += ", CUDA error " + std::to_string(opened.cuda);
    return {cufileRow(ProbeStatus::kMissing, detail + ")",
                      std::string(kBounced) + "See the rows `cuda` and `nvidia-fs`; `gdscheck -p` "
                                              "of the CUDA toolkit shows more.")};
  }
  stage("cuFileDriverGetProperties");
  ProbedProperties properties{};
  const CufileError asked = cufile->driverGetProperties(&properties);
  stage("cuFileDriverClose");
  cufile->driverClose();
  if (asked.code != 0) {
    return {cufileRow(ProbeStatus::kDegraded,
                      "cuFileDriverGetProperties failed: " + std::string(reason(asked.code)) +
                          " (" + std::to_string(asked.code) + ")",
                      std::string(kBounced) + "Install libcufile of the loaded nvidia-fs.")};
  }
  const bool peerToPeer = (properties.nvidiaFs.statusFlags & kNvmePeerToPeer) != 0;
  if (peerToPeer) return {cufileRow(ProbeStatus::kOk, "driver opens, NVMe by PCI P2PDMA", "")};
  if (properties.nvidiaFs.major == 0 && properties.nvidiaFs.minor == 0) {
    return {cufileRow(ProbeStatus::kDegraded, "driver opens in compatibility mode",
                      std::string(kBounced) + "See the row `nvidia-fs`.")};
  }
  const std::string detail = "driver opens, nvidia-fs " +
                             std::to_string(properties.nvidiaFs.major) + "." +
                             std::to_string(properties.nvidiaFs.minor);
  if ((properties.nvidiaFs.statusFlags & kNvme) == 0) {
    return {cufileRow(ProbeStatus::kDegraded, detail + ", no NVMe support",
                      std::string(kBounced) + "Install the NVMe driver with GPUDirect Storage "
                                              "patches, or a kernel with P2PDMA.")};
  }
  return {cufileRow(ProbeStatus::kOk, detail + ", NVMe", "")};
}

}  // namespace hearth
