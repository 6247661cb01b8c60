// The folder of a volume's log as a whole: made before the log is opened, emptied before a log that
// another agent copies begins anew. On the reactor's thread.
#pragma once

#include <string>

#include "files/file_system.h"
#include "volume/background.h"
#include "volume/volume_log.h"

namespace hearth {

// Makes the folder with the two above it, and syncs them: records come into it.
[[nodiscard]] Task<Status> makeLogFolder(FileSystem& files, std::string folder);
// False: there is no such folder.
[[nodiscard]] Task<Result<bool>> hasLogFolder(FileSystem& files, std::string folder);
// Removes all segments, checkpoints and unfinished files of the folder, and the file `tail` if its
// path is not empty. Nobody has the log open.
[[nodiscard]] Task<Status> emptyLogFolder(FileSystem& files, Background background,
                                          std::string folder, std::string tail);

}  // namespace hearth
