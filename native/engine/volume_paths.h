// Folders and files of a volume by their names, for clients, which have paths and no inodes. On the
// volume's reactor.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sessions/volume_sessions.h"

namespace hearth {

// The error of a client whose name `name` of a volume was answered with an errno.
[[nodiscard]] Error volumePathError(std::int32_t error, const std::string& name);
// The inode of `names` below the root.
[[nodiscard]] Task<Result<tree::Attributes>> walkVolume(VolumeFiles& files,
                                                        std::span<const std::string> names);
// Where the last of the names belongs. Makes folders that are not there, for any user to write to.
// kUnavailable while this agent takes over the files of an earlier one.
[[nodiscard]] Task<Result<tree::Place>> placeInVolume(VolumeSessions& sessions,
                                                      std::span<const std::string> names);

}  // namespace hearth
