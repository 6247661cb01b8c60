// Negotiates a connection with the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "fuse/fuse_device.h"
#include "fuse/fuse_init.h"
#include "fuse/fuse_request.h"

namespace hearth {

// Answers FUSE_INIT with what the kernel offers of `wanted`. `saveState` keeps what was negotiated
// for the next agent before the kernel gets the answer; it may be empty. None: the kernel will ask
// again in our version. Any thread.
[[nodiscard]] Result<std::optional<FuseNegotiated>> answerInit(
    FuseDevice& device, const FuseRequest& request, std::uint64_t wanted,
    const std::function<Status(const std::string& state)>& saveState);

}  // namespace hearth
