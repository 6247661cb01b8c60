#include "base/dynamic_library.h"
#include "gpu/cufile_functions.h"
#include "probe/probes.h"

namespace hearth {
namespace {

Probe cufileRow(ProbeStatus status, std::string detail, std::string advice) {
  return {"cufile", status, std::move(detail), std::move(advice)};
}

constexpr const char* kBounced = "Bytes reach GPUs through host memory. ";

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
  const Result<CufileFunctions> cufile = findCufile(*library);
  if (!cufile.ok()) {
    return {cufileRow(ProbeStatus::kMissing, cufile.error().message,
                      std::string(kBounced) + "Install libcufile of CUDA 12 or later.")};
  }
  stage("cuFileDriverOpen");
  const CufileStatus opened = cufile->driverOpen();
  if (opened.code != kCufileSuccess) {
    return {cufileRow(ProbeStatus::kMissing, cufileError("cuFileDriverOpen", opened).message,
                      std::string(kBounced) + "See the rows `cuda` and `nvidia-fs`; `gdscheck -p` "
                                              "of the CUDA toolkit shows more.")};
  }
  stage("cuFileDriverGetProperties");
  CufileProperties properties{};
  const CufileStatus asked = cufile->driverGetProperties(&properties);
  stage("cuFileDriverClose");
  cufile->driverClose();
  if (asked.code != kCufileSuccess) {
    return {cufileRow(ProbeStatus::kDegraded,
                      cufileError("cuFileDriverGetProperties", asked).message,
                      std::string(kBounced) + "Install libcufile of the loaded nvidia-fs.")};
  }
  if (isPeerToPeer(properties))
    return {cufileRow(ProbeStatus::kOk, "driver opens, NVMe by PCI P2PDMA", "")};
  if (properties.nvidiaFs.majorVersion == 0 && properties.nvidiaFs.minorVersion == 0) {
    return {cufileRow(ProbeStatus::kDegraded, "driver opens in compatibility mode",
                      std::string(kBounced) + "See the row `nvidia-fs`.")};
  }
  const std::string detail = "driver opens, nvidia-fs " +
                             std::to_string(properties.nvidiaFs.majorVersion) + "." +
                             std::to_string(properties.nvidiaFs.minorVersion);
  if ((properties.nvidiaFs.statusFlags & kCufileNvme) == 0) {
    return {cufileRow(ProbeStatus::kDegraded, detail + ", no NVMe support",
                      std::string(kBounced) + "Install the NVMe driver with GPUDirect Storage "
                                              "patches, or a kernel with P2PDMA.")};
  }
  return {cufileRow(ProbeStatus::kOk, detail + ", NVMe", "")};
}

}  // namespace hearth
