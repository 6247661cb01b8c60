// The host's memory as a Device, so that a program has one way for machines with and without GPUs.
#pragma once

#include <memory>

#include "gpu/device.h"

namespace hearth {

[[nodiscard]] std::shared_ptr<Device> makeHostDevice();

}  // namespace hearth
