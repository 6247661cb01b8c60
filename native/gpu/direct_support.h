// Tells from files of the kernel if a machine can have a direct path at all. Calls no driver.
#pragma once

#include <string>

#include "base/result.h"

namespace hearth {

struct DirectSupport {
  // Of nvidia-fs; empty: the module is not loaded.
  std::string nvidiaFs;
  // Why PCI P2PDMA cannot be used; empty: it may work.
  std::string whyNoPeerToPeer;
};

// `cudaVersion` as cuDriverGetVersion gives it (12080 is 12.8); `kernelRelease` as uname(2) does.
// `root` stands before /proc.
[[nodiscard]] DirectSupport findDirectSupport(int cudaVersion, const std::string& kernelRelease,
                                              const std::string& root = "");

// kUnsupported with both reasons when neither way is there.
[[nodiscard]] Status checkDirectSupport(const DirectSupport& support);

}  // namespace hearth
