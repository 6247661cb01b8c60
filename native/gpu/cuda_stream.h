// Pinned memory and streams of one GPU.
#pragma once

#include <memory>

#include "gpu/cuda_device.h"

namespace hearth {

// kOutOfSpace. Any thread.
[[nodiscard]] Result<std::unique_ptr<PinnedMemory>> pinCudaMemory(
    std::shared_ptr<CudaPrimaryContext> context, std::size_t bytes);

// A stream of its own, which waits for no work of other streams. Any thread.
[[nodiscard]] Result<std::unique_ptr<CopyStream>> makeCudaStream(
    std::shared_ptr<CudaPrimaryContext> context);

}  // namespace hearth
