#include "engine/read_only_folder.h"

#include <fcntl.h>

#include <cerrno>

#include "mount/idmapped_mount.h"

namespace hearth {

Result<ReadOnlyFolder> ReadOnlyFolder::of(std::string path) {
  Result<OwnedFd> mount = makeIdmapped(path);
  if (!mount.ok()) return mount.error();
  // Nobody owns files there, so their modes for others decide, also for root.
  if (faccessat(mount->get(), ".", X_OK, AT_EACCESS) != 0) {
    return Error{ErrorCode::kUnsupported,
                 errnoError(errno, "enter " + path + " as a user who does not own it").message};
  }
  return ReadOnlyFolder(std::move(path), std::move(*mount));
}

bool ReadOnlyFolder::contains(std::string_view file) const {
  return file.size() > path_.size() && file.starts_with(path_) && file[path_.size()] == '/';
}

Result<OwnedFd> ReadOnlyFolder::open(const std::string& file) const {
  const char* const below = file.c_str() + path_.size() + 1;
  OwnedFd opened(openat(mount_.get(), below, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!opened) return errnoError(errno, "open " + file + " for a program of this node");
  return opened;
}

}  // namespace hearth
