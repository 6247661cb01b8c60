#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/result.h"
#include "probe/probes.h"

namespace hearth {
namespace {

// Of the FUSE protocol 7.40 (kernel documentation, include/uapi/linux/fuse.h); Debian 12's header
// ends at 7.38.
struct InHeader {
  std::uint32_t length, opcode;
  std::uint64_t unique, node;
  std::uint32_t uid, gid, pid, padding;
};
struct InitIn {
  std::uint32_t major, minor, maxReadahead, flags, flags2, unused[11];
};
struct OutHeader {
  std::uint32_t length;
  std::int32_t error;
  std::uint64_t unique;
};
struct InitOut {
  std::uint32_t major, minor, maxReadahead, flags;
  std::uint16_t maxBackground, congestionThreshold;
  std::uint32_t maxWrite, timeGranularity;
  std::uint16_t maxPages, mapAlignment;
  std::uint32_t flags2, maxStackDepth, unused[6];
};
static_assert(sizeof(InHeader) == 40 && sizeof(InitIn) == 64 && sizeof(InitOut) == 64);
struct BackingMap {
  std::int32_t fd;
  std::uint32_t flags;
  std::uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr std::uint32_t kInit = 26;
constexpr std::uint32_t kInitExtended = 1U << 30;
constexpr std::uint32_t kPassthrough2 = 1U << 5;  // FUSE_PASSTHROUGH is bit 37 of both words
constexpr int kInitTimeMs = 3000;

Probe row(ProbeStatus status, std::string detail, std::string advice) {
  return {"fuse passthrough", status, std::move(detail), std::move(advice)};
}

Error failure(int error, const char* what) { return errnoError(error, what); }

// Answers the kernel's first request; true when it offered passthrough.
Result<bool> negotiate(int device) {
  pollfd wait{device, POLLIN, 0};
  if (poll(&wait, 1, kInitTimeMs) != 1) {
    return Error{ErrorCode::kDeadlineExceeded, "the kernel sent no FUSE_INIT"};
  }
  alignas(8) char request[8192];
  const ssize_t count = read(device, request, sizeof request);
  if (count < 0) return failure(errno, "read FUSE_INIT");
  InHeader header{};
  InitIn in{};
  // Old kernels send a shorter body without flags2.
  std::memcpy(&header, request, sizeof header);
  if (count < static_cast<ssize_t>(sizeof header) || header.opcode != kInit) {
    return Error{ErrorCode::kProtocolError, "the kernel's first request is not FUSE_INIT"};
  }
  const std::size_t body = static_cast<std::size_t>(count) - sizeof header;
  std::memcpy(&in, request + sizeof header, body < sizeof in ? body : sizeof in);
  const bool offered = (in.flags & kInitExtended) != 0 && (in.flags2 & kPassthrough2) != 0;
  struct {
    OutHeader header;
    InitOut body;
  } answer{};
  answer.header = {sizeof answer, 0, header.unique};
  answer.body.major = 7;
  answer.body.minor = 40;
  answer.body.maxReadahead = in.maxReadahead;
  answer.body.flags = kInitExtended;
  answer.body.flags2 = offered ? kPassthrough2 : 0;
  answer.body.maxStackDepth = offered ? 1 : 0;
  answer.body.maxWrite = 4096;
  answer.body.timeGranularity = 1;
  if (write(device, &answer, sizeof answer) != static_cast<ssize_t>(sizeof answer)) {
    return failure(errno, "answer FUSE_INIT");
  }
  return offered;
}

// Registers `file` as a backing file; the mount's end releases it.
Status openBacking(int device, int file) {
  BackingMap map{file, 0, 0};
  if (ioctl(device, kBackingOpen, &map) < 0) return failure(errno, "FUSE_DEV_IOC_BACKING_OPEN");
  return {};
}

struct Candidate {
  std::string name;
  int fd;
};

// An unnamed file of each directory, and one in memory. Opened before the mount hides anything.
std::vector<Candidate> candidates(const std::vector<std::string>& directories) {
  std::vector<Candidate> found{{"memory", memfd_create("hearth-probe", MFD_CLOEXEC)}};
  for (const std::string& directory : directories) {
    // A directory that takes no files has its own row that says so.
    const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) found.push_back({directory, fd});
  }
  return found;
}

}  // namespace

std::vector<Probe> probeFuseDevice() {
  const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device >= 0) {
    close(device);
    return {{"fuse", ProbeStatus::kOk, "/dev/fuse can be opened", ""}};
  }
  const int error = errno;
  const std::string advice =
      error == ENOENT || error == ENODEV || error == ENXIO
          ? "Datasets cannot be mounted by FUSE (views and `hearth cat` still work). Load the "
            "module: `modprobe fuse`; in a container add the device /dev/fuse."
          : "Datasets cannot be mounted by FUSE (views and `hearth cat` still work). Run as root; "
            "in a container allow the device /dev/fuse.";
  return {{"fuse", ProbeStatus::kMissing, errnoError(error, "open /dev/fuse").message, advice}};
}

std::vector<Probe> probePassthrough(const std::vector<std::string>& directories,
                                    const Stage& stage) {
  const std::string slower =
      "Complete files go through the daemon where a view cannot serve them. ";
  const std::vector<Candidate> files = candidates(directories);
  const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    return {row(ProbeStatus::kMissing, errnoError(errno, "open /dev/fuse").message,
                "See the row `fuse`.")};
  }
  stage("unshare");
  // A namespace of our own: the mount below is seen by no other process and ends with this process.
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return {
        row(ProbeStatus::kMissing,
            "not tried: " + errnoError(errno, "unshare the mount namespace").message,
            slower + "Passthrough needs CAP_SYS_ADMIN: run as root, in a privileged container.")};
  }
  stage("mount");
  const std::string data = "fd=" + std::to_string(device) + ",rootmode=40000,user_id=0,group_id=0";
  if (mount("hearth-probe", "/tmp", "fuse.hearth-probe", MS_NOSUID | MS_NODEV | MS_RDONLY,
            data.c_str()) != 0) {
    return {
        row(ProbeStatus::kMissing, errnoError(errno, "mount a FUSE file system").message,
            slower + "Passthrough needs CAP_SYS_ADMIN: run as root, in a privileged container.")};
  }
  stage("FUSE_INIT");
  const Result<bool> offered = negotiate(device);
  if (!offered.ok()) {
    return {row(ProbeStatus::kMissing, offered.error().message, slower + "Look at `dmesg`.")};
  }
  if (!*offered) {
    return {row(ProbeStatus::kMissing, "the kernel does not offer it",
                slower + "Run Linux 6.9 or later with CONFIG_FUSE_PASSTHROUGH.")};
  }
  stage("FUSE_DEV_IOC_BACKING_OPEN");
  std::string works;
  std::string fails;
  for (const Candidate& file : files) {
    const Status opened = openBacking(device, file.fd);
    std::string& list = opened.ok() ? works : fails;
    list += (list.empty() ? "" : ", ") + file.name;
    if (!opened.ok()) list += " (" + opened.error().message + ")";
  }
  if (works.empty()) {
    return {row(ProbeStatus::kMissing, "not for " + fails,
                slower + "Run as root, with CAP_SYS_ADMIN.")};
  }
  if (fails.empty()) return {row(ProbeStatus::kOk, "tried with files in " + works, "")};
  return {row(ProbeStatus::kDegraded, "works for files in " + works + "; not for " + fails,
              slower + "Put cache directories on ext4 or xfs, not on overlayfs or another stacked "
                       "file system.")};
}

}  // namespace hearth
