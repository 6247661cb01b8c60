// Writes the tree of a view. Used on one reactor.
#pragma once

#include <functional>
#include <string>

#include "files/file_system.h"
#include "manifest/manifest.h"

namespace hearth {

// Makes `root` (which is not there yet) with everything of the manifest: directories 0555, files as
// hard links to what `source` names, symlinks last. All directories are synced. On error a part of
// it may be there. Nothing outside of `root` can be reached: it is new, names are single
// components, and no symlink exists in it while directories and files are made.
[[nodiscard]] Task<Status> writeViewTree(FileSystem& files, const Manifest& manifest,
                                         std::string root,
                                         std::function<std::string(const ContentKey&)> source);

}  // namespace hearth
