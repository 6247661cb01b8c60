#include "holder/fuse_mount.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "holder/mount_info.h"

namespace hearth {
namespace {

constexpr char kConnections[] = "/sys/fs/fuse/connections";
constexpr std::uint32_t kMaxRead = 1U << 20;  // 256 pages, the most that one request carries
constexpr int kProbeMs = 1000;

std::string linkOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Result<OwnedFd> openDirectory(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return Error{ErrorCode::kInvalidArgument,
                 "mount point '" + path + "' is not an absolute path; give one that begins with /"};
  }
  // O_PATH asks nothing of a file system mounted there.
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) {
    const std::string next = errno == ENOENT ? " (create the directory first)" : "";
    return errnoError(errno, "mount point " + path + next);
  }
  OwnedFd owned(fd);
  // O_PATH with AT_STATX_DONT_SYNC: the type alone, from what the kernel knows.
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) == 0 &&
      !S_ISDIR(info.stx_mode)) {
    return Error{ErrorCode::kInvalidArgument, "mount point " + path + " is not a directory"};
  }
  return owned;
}

Result<std::string> pathOf(const OwnedFd& fd) {
  char buffer[PATH_MAX];
  const ssize_t size = readlink(linkOf(fd.get()).c_str(), buffer, sizeof buffer);
  if (size < 0) return errnoError(errno, "resolve the mount point's path");
  return std::string(buffer, static_cast<std::size_t>(size));
}

// Whether the server of the mount at `target` is gone for ever: the kernel answers ENOTCONN at
// once. Asked by a child, because a server that merely does not answer would keep us waiting.
bool connectionDead(const std::string& target) {
  int channel[2];
  if (pipe2(channel, O_CLOEXEC) != 0) return false;
  OwnedFd reader(channel[0]);
  const pid_t child = fork();
  if (child == 0) {
    // It may hang, and must not keep connections alive by copies of their descriptors then.
    dup2(channel[1], STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    struct statx info {};
    const int result =
        statx(AT_FDCWD, target.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info);
    const char answer = result != 0 && (errno == ENOTCONN || errno == ECONNABORTED) ? 1 : 0;
    const ssize_t written = ::write(STDIN_FILENO, &answer, 1);
    _exit(written == 1 ? 0 : 1);
  }
  close(channel[1]);
  if (child < 0) return false;
  pollfd wait{reader.get(), POLLIN, 0};
  char answer = 0;
  const bool answered = poll(&wait, 1, kProbeMs) == 1 && read(reader.get(), &answer, 1) == 1;
  kill(child, SIGKILL);
  // A child that a hung server keeps in the kernel cannot be waited for; it stays until that ends.
  waitpid(child, nullptr, answered ? 0 : WNOHANG);
  return answered && answer == 1;
}

Status writeText(const std::string& path, const std::string& text) {
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errnoError(errno, "open " + path);
  if (::write(file.get(), text.data(), text.size()) < 0) return errnoError(errno, "write " + path);
  return {};
}

Status makeWay(const std::string& target) {
  auto existing = findMount(target);
  if (!existing) return existing.error();
  if (!existing->has_value()) return {};
  const MountInfoRow& row = **existing;
  if (row.type == kFuseType && connectionDead(target)) return unmountFuse(target, true);
  return Error{ErrorCode::kInUse, "mount point " + target + " already has '" + row.source + "' (" +
                                      row.type + ") mounted; unmount it or choose another folder"};
}

}  // namespace

Result<std::string> canonicalDirectory(const std::string& path) {
  auto directory = openDirectory(path);
  if (!directory) return directory.error();
  return pathOf(*directory);
}

Result<FuseMount> mountFuse(const std::string& target, const FuseMountOptions& options) {
  if (options.selinuxContext.find_first_of("\",\n\\") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "the SELinux context contains a quote, comma or newline"};
  }
  auto canonical = canonicalDirectory(target);
  if (!canonical) return canonical.error();
  if (Status free = makeWay(*canonical); !free) return free.error();
  auto directory = openDirectory(*canonical);
  if (!directory) return directory.error();

  FuseMount mounted;
  mounted.target = *canonical;
  mounted.device.reset(open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!mounted.device) {
    return errnoError(errno, "open /dev/fuse (load the kernel module fuse and run as root)");
  }
  std::string data =
      "fd=" + std::to_string(mounted.device.get()) +
      ",rootmode=40555,user_id=0,group_id=0,allow_other,default_permissions,max_read=" +
      std::to_string(kMaxRead);
  if (!options.selinuxContext.empty()) data += ",context=\"" + options.selinuxContext + "\"";
  // Through the descriptor, so that nothing can be moved between the check and the mount.
  if (mount(options.source.c_str(), linkOf(directory->get()).c_str(), kFuseType,
            MS_RDONLY | MS_NOSUID | MS_NODEV, data.c_str()) != 0) {
    return errnoError(errno, "mount FUSE on " + *canonical);
  }

  auto row = findMount(*canonical);
  if (!row || !row->has_value()) {
    if (Status undone = unmountFuse(*canonical, true); !undone) return undone.error();
    return Error{ErrorCode::kInternal, "the new mount on " + *canonical + " is not in mountinfo"};
  }
  mounted.minor = (*row)->minor;
  const std::string knob = "/sys/class/bdi/" + std::to_string((*row)->major) + ":" +
                           std::to_string((*row)->minor) + "/read_ahead_kb";
  mounted.readAhead = writeText(knob, std::to_string(options.readAheadKiB));
  return mounted;
}

Status unmountFuse(const std::string& target, bool lazy) {
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
  if (errno == EINVAL || errno == ENOENT) return {};
  if (errno == EBUSY) {
    return Error{ErrorCode::kInUse, target + " has open files; end their processes (fuser -m " +
                                        target + ") or unmount with force"};
  }
  return errnoError(errno, "unmount " + target);
}

Status abortFuseConnection(std::uint32_t minor) {
  const std::string file = std::string(kConnections) + "/" + std::to_string(minor) + "/abort";
  if (access(file.c_str(), F_OK) != 0 &&
      mount("fusectl", kConnections, "fusectl", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 &&
      errno != EBUSY) {
    return errnoError(errno, std::string("mount fusectl on ") + kConnections);
  }
  return writeText(file, "1");
}

}  // namespace hearth
