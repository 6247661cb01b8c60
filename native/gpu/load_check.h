// Checks that must pass on every machine with a GPU, by whichever path. For `make check-gpu`.
#pragma once

#include <string>
#include <vector>

#include "gpu/load_options.h"

namespace hearth {

struct LoadCheck {
  std::string name;
  Status status;  // kUnsupported: the machine cannot do it, which is no failure
  std::string detail;
};

// Each check on the device, with the first of the paths as the file to read. kUnavailable and the
// like when there is no device.
[[nodiscard]] Result<std::vector<LoadCheck>> runChecks(const LoadOptions& options);

}  // namespace hearth
