#include "holder/fuse_mount.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "holder/holder_protocol.h"
#include "holder/mount_info.h"

namespace hearth {
namespace {

constexpr unsigned kMiscMajor = 10;  // /dev/fuse, by the kernel's list of devices
constexpr unsigned kFuseMinor = 229;
constexpr char kConnections[] = "/sys/fs/fuse/connections";
constexpr std::uint32_t kMaxRead = 1U << 20;  // 256 pages, the most that one request carries
constexpr auto kProbeTime = std::chrono::seconds(1);

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

// True when the server of the mount at `target` is gone for ever: the kernel answers ENOTCONN at
// once, while a server that merely does not answer keeps the caller waiting.
bool connectionDead(const std::string& target) {
  ChildCalls asking(kProbeTime);
  const auto answer = asking.run("look at " + target, [&target] {
    struct statx info {};
    const int result =
        statx(AT_FDCWD, target.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info);
    return ChildAnswer{result != 0 && (errno == ENOTCONN || errno == ECONNABORTED) ? "dead" : "",
                       {}};
  });
  return answer.ok() && answer->bytes == "dead";
}

Status writeText(const std::string& path, const std::string& text) {
  const OwnedFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return errnoError(errno, "open " + path);
  if (::write(file.get(), text.data(), text.size()) < 0) return errnoError(errno, "write " + path);
  return {};
}

Status makeWay(ChildCalls& calls, const std::string& target) {
  auto existing = findMount(target);
  if (!existing) return existing.error();
  if (!existing->has_value()) return {};
  const MountInfoRow& row = **existing;
  if (row.type == kFuseType && connectionDead(target)) return unmountFuse(calls, target, true);
  return Error{ErrorCode::kInUse, "mount point " + target + " already has '" + row.source + "' (" +
                                      row.type + ") mounted; unmount it or choose another folder"};
}

// In the child. Through the directory's descriptor, so that nothing can be moved between the check
// and the mount.
Result<OwnedFd> mountHere(const std::string& target, const FuseMountOptions& options) {
  auto directory = openDirectory(target);
  if (!directory) return directory.error();
  const auto opened = pathOf(*directory);
  if (!opened) return opened.error();
  if (*opened != target) {
    return Error{ErrorCode::kConflict,
                 "mount point " + target + " leads to " + *opened + " now; ask again"};
  }
  OwnedFd device(open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!device) {
    return errnoError(errno, "open /dev/fuse (load the kernel module fuse and run as root)");
  }
  std::string data =
      "fd=" + std::to_string(device.get()) + ",rootmode=" + (options.writable ? "40755" : "40555") +
      ",user_id=0,group_id=0,allow_other,default_permissions,max_read=" + std::to_string(kMaxRead);
  for (const std::string& option : options.options) {
    const std::size_t value = option.find('=') + 1;
    data += "," + option.substr(0, value) + "\"" + option.substr(value) + "\"";
  }
  const unsigned long flags = MS_NOSUID | MS_NODEV | (options.writable ? 0 : MS_RDONLY);
  if (mount(options.source.c_str(), linkOf(directory->get()).c_str(), kFuseType, flags,
            data.c_str()) != 0) {
    return errnoError(errno, "mount FUSE on " + target);
  }
  return device;
}

// A Status and a text as the bytes of a child's answer, and back.
std::string pack(const Status& status, const std::string& text) {
  return std::to_string(static_cast<int>(status.code())) + "\n" +
         (status.ok() ? text : status.error().message);
}

Result<std::string> unpack(const std::string& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string text = bytes.substr(end + 1);
  const auto code = static_cast<ErrorCode>(std::stoi(bytes));
  if (code != ErrorCode::kOk) return Error{code, text};
  return text;
}

std::string walkName(const std::string& path) { return "look at mount point " + path; }

// In the child.
ChildAnswer walkHere(const std::string& path) {
  const auto directory = openDirectory(path);
  if (!directory) return {pack(directory.error(), ""), {}};
  const auto canonical = pathOf(*directory);
  return {canonical ? pack({}, *canonical) : pack(canonical.error(), ""), {}};
}

Result<std::string> canonicalOf(const Result<ChildAnswer>& walked) {
  if (!walked) return walked.error();
  return unpack(walked->bytes);
}

}  // namespace

Result<ChildCalls::Running> beginWalk(ChildCalls& calls, const std::string& path) {
  return calls.begin(walkName(path), [&path] { return walkHere(path); });
}

Result<std::string> finishWalk(ChildCalls& calls, ChildCalls::Running walk) {
  return canonicalOf(calls.finish(std::move(walk)));
}

Result<std::string> canonicalDirectory(ChildCalls& calls, const std::string& path) {
  return canonicalOf(calls.run(walkName(path), [&path] { return walkHere(path); }));
}

Result<FuseMount> mountFuse(ChildCalls& calls, const std::string& target,
                            const FuseMountOptions& options) {
  for (const std::string& option : options.options) {
    if (Status allowed = allowedMountOption(option); !allowed) return allowed.error();
  }
  if (Status free = makeWay(calls, target); !free) return free.error();
  auto answer = calls.run("mount FUSE on " + target, [&] {
    auto device = mountHere(target, options);
    if (!device) return ChildAnswer{pack(device.error(), ""), {}};
    return ChildAnswer{pack({}, ""), std::move(*device)};
  });
  if (!answer) return answer.error();
  if (auto done = unpack(answer->bytes); !done) return done.error();

  FuseMount mounted;
  mounted.target = target;
  mounted.device = std::move(answer->descriptor);
  auto row = findMount(target);
  if (!mounted.device || !row || !row->has_value()) {
    if (Status undone = unmountFuse(calls, target, true); !undone) return undone.error();
    return Error{ErrorCode::kInternal, "the new mount on " + target +
                                           " is not in mountinfo, or came without its descriptor"};
  }
  mounted.minor = (*row)->minor;
  const std::string knob = "/sys/class/bdi/" + std::to_string((*row)->major) + ":" +
                           std::to_string((*row)->minor) + "/read_ahead_kb";
  mounted.readAhead = writeText(knob, std::to_string(options.readAheadKiB));
  return mounted;
}

Status unmountFuse(ChildCalls& calls, const std::string& target, bool lazy) {
  return calls.runStatus("unmount " + target, [&]() -> Status {
    if (umount2(target.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
    if (errno == EINVAL || errno == ENOENT) return {};
    if (errno == EBUSY) {
      return Error{ErrorCode::kInUse, target + " has open files; end their processes (fuser -m " +
                                          target + ") or unmount with force"};
    }
    return errnoError(errno, "unmount " + target);
  });
}

bool isFuseDevice(const OwnedFd& device) {
  struct stat info {};
  return fstat(device.get(), &info) == 0 && S_ISCHR(info.st_mode) &&
         info.st_rdev == makedev(kMiscMajor, kFuseMinor);
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
