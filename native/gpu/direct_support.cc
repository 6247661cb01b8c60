#include "gpu/direct_support.h"

#include <cstdio>
#include <fstream>
#include <sstream>

namespace hearth {
namespace {

constexpr int kCudaOfPeerToPeer = 12080;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string nvidiaFsVersion(const std::string& root) {
  const std::string version = contents(root + "/proc/driver/nvidia-fs/version");
  if (!version.empty()) return version.substr(0, version.find('\n'));
  std::istringstream modules(contents(root + "/proc/modules"));
  for (std::string line; std::getline(modules, line);) {
    if (line.starts_with("nvidia_fs ")) return "loaded";
  }
  return "";
}

bool isOlderThan62(const std::string& release) {
  int major = 0, minor = 0;
  if (std::sscanf(release.c_str(), "%d.%d", &major, &minor) != 2) return false;
  return major < 6 || (major == 6 && minor < 2);
}

}  // namespace

DirectSupport findDirectSupport(int cudaVersion, const std::string& kernelRelease,
                                const std::string& root) {
  DirectSupport support;
  support.nvidiaFs = nvidiaFsVersion(root);
  const auto lacks = [&](const std::string& what) {
    support.whyNoPeerToPeer += (support.whyNoPeerToPeer.empty() ? "" : ", ") + what;
  };
  if (cudaVersion < kCudaOfPeerToPeer) {
    lacks("CUDA 12.8 or later (the driver has " + std::to_string(cudaVersion / 1000) + "." +
          std::to_string(cudaVersion % 1000 / 10) + ")");
  }
  if (contents(root + "/proc/driver/nvidia/version").find("Open Kernel Module") ==
      std::string::npos) {
    lacks("the open kernel modules of the NVIDIA driver");
  }
  if (isOlderThan62(kernelRelease)) lacks("Linux 6.2 or later (this is " + kernelRelease + ")");
  return support;
}

Status checkDirectSupport(const DirectSupport& support) {
  if (!support.nvidiaFs.empty() || support.whyNoPeerToPeer.empty()) return {};
  return Error{ErrorCode::kUnsupported,
               "nvidia-fs is not loaded (`modprobe nvidia-fs`), and PCI P2PDMA lacks " +
                   support.whyNoPeerToPeer};
}

}  // namespace hearth
