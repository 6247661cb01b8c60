// The door through which programs of other tenants get cached files of this node: descriptors by
// which they can read and nothing else. A descriptor of the file as the agent opens it would not
// do: root in a container, without any capability, owns the file, changes its mode by fchmod(2) and
// opens /proc/self/fd/N for writing.
#pragma once

#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// Immutable; any thread. Calls block for path look-ups.
class ReadOnlyFolder {
 public:
  // `path`: an absolute folder that others may enter, as may be all folders below it. It is mounted
  // read-only for as long as this object or a descriptor of open() lives. kUnsupported, with the
  // reason, where this process or the file system cannot make such mounts.
  [[nodiscard]] static Result<ReadOnlyFolder> of(std::string path);

  [[nodiscard]] bool contains(std::string_view file) const;
  // A descriptor for reading of a file that contains() is true for and that others may read.
  // Errors of openat(2).
  [[nodiscard]] Result<OwnedFd> open(const std::string& file) const;

 private:
  ReadOnlyFolder(std::string path, OwnedFd mount)
      : path_(std::move(path)), mount_(std::move(mount)) {}

  std::string path_;
  OwnedFd mount_;
};

}  // namespace hearth
