// A session of a volume's mount. The volume's reactor reads /dev/fuse itself, so a program that
// asks for one thing after the other waits for one thread and not for two.
#pragma once

#include <memory>

#include "fuse/fuse_session.h"
#include "volume_mount/volume_service.h"

namespace hearth {

// Serves until close(). Takes over what an earlier agent left when `options.epoch` is above 1; of
// `options` only epoch, state and onEnd count. Any thread but the volume's reactor, which outlives
// the session.
[[nodiscard]] Result<std::unique_ptr<FuseSession>> startVolumeSession(
    std::shared_ptr<VolumeService> service, FuseSessionOptions options);

}  // namespace hearth
