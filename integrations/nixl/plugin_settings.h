// The parameters of create_backend("HEARTH", ...).
#pragma once

#include <string>

#include "nixl_abi.h"

namespace hearth::nixl {

struct PluginSettings {
  std::string volume;           // its name
  std::string fingerprint;      // of weights, layout and precision: blocks of others are misses
  std::string salt;             // keeps tenants apart; may be empty
  std::string addresses;        // of agents; empty: as libgd2fs finds them
  std::string cluster;          // its name; empty: as libgd2fs finds it
  unsigned timeoutMs = 10'000;  // of a transfer
};

// All parameters with their defaults, as NIXL lists them.
[[nodiscard]] Parameters defaultParameters();

// The settings, or false and the reason.
[[nodiscard]] bool readSettings(const Parameters& parameters, PluginSettings& settings,
                                std::string& problem);

}  // namespace hearth::nixl
