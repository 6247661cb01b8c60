// Says after a load whether the file still is the one whose bytes were loaded. Not a door: only the
// room uses it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "gpu/device.h"
#include "loader/load_plan.h"

namespace hearth {

// `address`: where the plan's memory begins, on `device`, or on the host when that is null; all of
// the plan's reads are done. As ModelFile::checkUnchanged(), with the loaded bytes for those that
// it compares. Blocks, on any thread.
[[nodiscard]] Status checkLoaded(const FilePlan& plan, std::uint64_t address,
                                 const std::shared_ptr<Device>& device);

}  // namespace hearth
