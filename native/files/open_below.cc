#include "files/open_below.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace hearth {
namespace {

// The kernel gives up when something on the way is renamed at this moment; no renaming lasts for
// long.
constexpr int kTries = 16;

// Closed at the end of its scope.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

// A descriptor of the name itself, which opens nothing.
int nameBelow(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int tried = 1;; ++tried) {
    const long name = syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    if (name >= 0 || errno != EAGAIN || tried == kTries) return static_cast<int>(name);
  }
}

Error lookUpError(int error, const std::string& full) {
  switch (error) {
    case ENOSYS:
      return Error{ErrorCode::kUnsupported,
                   "the kernel cannot open " + full + " safely (openat2); use Linux 5.6 or later"};
    case ELOOP:
    case EXDEV:
      return Error{ErrorCode::kUnsupported,
                   full +
                       ": a symbolic link leads there, or out of its directory, and is not "
                       "followed"};
    default:
      return errnoError(error, "open " + full);
  }
}

}  // namespace

Result<int> openRegularBelow(const std::string& root, const std::string& path) {
  const std::string full = root + "/" + path;
  const Descriptor directory{open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (directory.number < 0) return errnoError(errno, "open directory " + root);
  const Descriptor name{nameBelow(directory.number, path)};
  if (name.number < 0) return lookUpError(errno, full);
  struct stat info {};
  if (fstat(name.number, &info) != 0) return errnoError(errno, "stat " + full);
  if (S_ISLNK(info.st_mode)) {
    return Error{ErrorCode::kUnsupported, full + ": it is a symbolic link, which is not followed"};
  }
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kUnsupported, full + ": it is not a regular file"};
  }
  // The same inode again, without another look-up.
  const std::string same = "/proc/self/fd/" + std::to_string(name.number);
  const int file = open(same.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errnoError(errno, "open " + full);
  return file;
}

}  // namespace hearth
