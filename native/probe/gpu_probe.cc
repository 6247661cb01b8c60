#include <sstream>

#include "base/dynamic_library.h"
#include "gpu/cuda_functions.h"
#include "probe/probes.h"
#include "probe/sizes.h"

namespace hearth {
namespace {

// PCI vendor of NVIDIA; classes 0x0300 (VGA) and 0x0302 (3D controller), PCI Code and ID
// Assignment.
constexpr const char* kVendor = "0x10de";
constexpr const char* kHostServes = "Bytes go to host memory only. ";

Probe cudaRow(ProbeStatus status, std::string detail, std::string advice) {
  return {"cuda", status, std::move(detail), std::move(advice)};
}

}  // namespace

std::vector<Probe> probeGpus(const SystemTree& tree) {
  const std::string pci = "/sys/bus/pci/devices/";
  int onBus = 0;
  for (const std::string& device : tree.names(pci)) {
    const std::string kind = tree.text(pci + device + "/class").value_or("");
    if (tree.text(pci + device + "/vendor") == kVendor &&
        (kind.starts_with("0x0300") || kind.starts_with("0x0302"))) {
      ++onBus;
    }
  }
  std::string models;
  int driven = 0;
  const std::string driver = "/proc/driver/nvidia/gpus/";
  for (const std::string& gpu : tree.names(driver)) {
    ++driven;
    for (const std::string& line : tree.lines(driver + gpu + "/information")) {
      if (!line.starts_with("Model:")) continue;
      const std::size_t start = line.find_first_not_of(" \t", 6);
      if (start != std::string::npos) models += ", " + line.substr(start);
    }
  }
  if (driven > 0) {
    return {{"gpu", ProbeStatus::kOk, std::to_string(driven) + " with driver" + models, ""}};
  }
  if (onBus > 0) {
    return {{"gpu", ProbeStatus::kDegraded, std::to_string(onBus) + " on the PCI bus, no driver",
             std::string(kHostServes) + "Load the NVIDIA driver (`modprobe nvidia`)."}};
  }
  return {{"gpu", ProbeStatus::kMissing, "no NVIDIA GPU on the PCI bus",
           std::string(kHostServes) + "Nothing to do on a machine without GPUs."}};
}

std::vector<Probe> probeCuda(const std::string& name, const Stage& stage) {
  stage("dlopen " + name);
  const Result<DynamicLibrary> library = DynamicLibrary::open(name);
  if (!library.ok()) {
    return {
        cudaRow(ProbeStatus::kMissing, library.error().message,
                std::string(kHostServes) +
                    "Install the NVIDIA driver; in a container use the NVIDIA container runtime.")};
  }
  const Result<CudaFunctions> cuda = findCuda(*library);
  if (!cuda.ok()) {
    return {cudaRow(ProbeStatus::kMissing, cuda.error().message,
                    std::string(kHostServes) + "Update the NVIDIA driver.")};
  }
  stage("cuInit");
  if (const int error = cuda->init(0); error != 0) {
    return {cudaRow(ProbeStatus::kMissing, cudaFailure(*cuda, "cuInit", error),
                    std::string(kHostServes) +
                        "The library must belong to the loaded kernel module: compare "
                        "/proc/driver/nvidia/version and `nvidia-smi`.")};
  }
  int version = 0;
  int count = 0;
  stage("cuDeviceGetCount");
  if (const int error = cuda->deviceGetCount(&count); error != 0) {
    return {cudaRow(ProbeStatus::kMissing, cudaFailure(*cuda, "cuDeviceGetCount", error),
                    std::string(kHostServes) + "Look at `nvidia-smi` and `dmesg`.")};
  }
  cuda->driverGetVersion(&version);
  // 12040 is CUDA 12.4 (cuDriverGetVersion).
  std::ostringstream detail;
  detail << "CUDA " << version / 1000 << "." << version % 1000 / 10 << ", " << count
         << (count == 1 ? " device" : " devices");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    char model[256] = "";
    std::size_t bytes = 0;
    stage("cuDeviceGetName " + std::to_string(ordinal));
    if (cuda->deviceGet(&device, ordinal) != 0 ||
        cuda->deviceGetName(model, sizeof model - 1, device) != 0 ||
        cuda->deviceTotalMemory(&bytes, device) != 0) {
      detail << "; device " << ordinal << " does not answer";
      return {cudaRow(ProbeStatus::kDegraded, detail.str(), "Look at `nvidia-smi` and `dmesg`.")};
    }
    detail << (ordinal == 0 ? ": " : ", ") << model << " (" << bytesForPeople(bytes) << ")";
  }
  if (count == 0) {
    return {cudaRow(ProbeStatus::kMissing, detail.str(),
                    std::string(kHostServes) + "Check CUDA_VISIBLE_DEVICES and the device files.")};
  }
  return {cudaRow(ProbeStatus::kOk, detail.str(), "")};
}

}  // namespace hearth
