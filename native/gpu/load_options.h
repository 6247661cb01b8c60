// The command line of hearth-load.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/device_files.h"

namespace hearth {

struct LoadOptions {
  enum class Mode : std::uint8_t {
    kLoad,    // files into the device
    kStore,   // the device into files
    kMemcpy,  // pinned memory into the device and back, without files
    kCheck,   // what must hold on every machine
    kTrial,   // open cuFile and end
  };
  Mode mode = Mode::kLoad;
  std::string device = "cuda:0";
  DeviceFiles::Options files;
  unsigned repeat = 1;
  bool verify = false, json = false;
  bool peerToPeer = false;  // of kTrial
  std::vector<std::string> paths;
};

// kInvalidArgument.
[[nodiscard]] Result<LoadOptions> parseLoadOptions(std::span<const char* const> words);

extern const char* const kLoadUsage;

}  // namespace hearth
