// Measures the moving of files into a device and back, as hearth-load does.
#pragma once

#include <string>

#include "gpu/load_options.h"

namespace hearth {

struct LoadReport {
  std::string device, model;
  Transferred moved;   // of one round
  double seconds = 0;  // of the fastest round
  bool isVerified = false;
};

// Files into the device (or out of it, LoadOptions::Mode::kStore); the fastest of the rounds. With
// `verify` the bytes are read back by another way and compared; kCorrupt names the first
// difference.
[[nodiscard]] Result<LoadReport> runLoad(const LoadOptions& options);

struct MemcpyReport {
  std::string device, model;
  double toDevice = 0, toHost = 0;  // bytes per second
};

// The speed of pinned memory, with as many streams as lanes. kUnsupported for the host.
[[nodiscard]] Result<MemcpyReport> runMemcpy(const LoadOptions& options);

}  // namespace hearth
