#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "base/result.h"
#include "probe/probes.h"
#include "probe/sizes.h"

namespace hearth {
namespace {

constexpr std::size_t kAlignment = 4096;
constexpr off_t kSparseBytes = 1 << 20;

struct Findings {
  bool hardLinks = false;
  bool directIo = false;
  bool sparse = false;
  bool punchHole = false;
};

// Mount points in mountinfo escape blank, tab, line end and backslash as \ooo (proc(5)).
std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(at + 1, 3).c_str(), nullptr, 8));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

// Type of the file system that the path is on: of the last mounted of the longest mount points.
std::string fileSystemType(const SystemTree& tree, const std::string& path) {
  std::string type = "unknown";
  std::size_t longest = 0;
  for (const std::string& line : tree.lines("/proc/self/mountinfo")) {
    const std::size_t separator = line.find(" - ");
    if (separator == std::string::npos) continue;
    std::istringstream words(line);
    std::string skipped;
    std::string point;
    for (int field = 0; field < 4; ++field) words >> skipped;
    words >> point;
    point = unescaped(point);
    const bool covers = path == point || point == "/" || path.starts_with(point + "/");
    if (!covers || point.size() < longest) continue;
    longest = point.size();
    type = line.substr(separator + 3, line.find(' ', separator + 3) - separator - 3);
  }
  return type;
}

// Names the block device: "NVMe nvme0n1", "SSD sda", "rotating disk sdb"; device mapper and md by
// the devices below them. Empty when the file system has no block device.
std::string deviceKind(const SystemTree& tree, const std::string& sysfs, int depth) {
  const auto real = tree.resolved(sysfs);
  if (!real || depth > 8) return "";
  const std::string name = real->substr(real->rfind('/') + 1);
  std::string below;
  for (const std::string& slave : tree.names(*real + "/slaves")) {
    below += (below.empty() ? "" : ", ") + deviceKind(tree, *real + "/slaves/" + slave, depth + 1);
  }
  if (!below.empty()) return name + " on " + below;
  // A partition's queue is its disk's.
  const std::string disk =
      tree.exists(*real + "/partition") ? real->substr(0, real->rfind('/')) : *real;
  const auto rotating = tree.number(disk + "/queue/rotational");
  if (disk.find("/nvme") != std::string::npos) return "NVMe " + name;
  // Hypervisors say "rotating" of whatever is behind them.
  if (name.starts_with("vd") || name.starts_with("xvd")) return "virtual disk " + name;
  return (rotating.value_or(0) != 0 ? "rotating disk " : "SSD ") + name;
}

// Tries with a file of our own in the directory; nothing of it stays.
Result<Findings> tryFile(const std::string& directory, const Stage& stage) {
  Findings findings;
  std::string name = directory + "/.hearth-probe-XXXXXX";
  stage("create a file");
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return errnoError(errno, "create a file in " + directory);
  const std::string other = name + "-link";
  stage("link");
  findings.hardLinks = link(name.c_str(), other.c_str()) == 0;
  if (findings.hardLinks) unlink(other.c_str());
  stage("O_DIRECT write");
  const int direct = open(name.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  unlink(name.c_str());
  if (direct >= 0) {
    const std::unique_ptr<void, decltype(&free)> block(std::aligned_alloc(kAlignment, kAlignment),
                                                       &free);
    std::memset(block.get(), 0, kAlignment);
    findings.directIo = write(direct, block.get(), kAlignment) == static_cast<ssize_t>(kAlignment);
    close(direct);
  }
  stage("ftruncate");
  struct stat status {};
  findings.sparse = ftruncate(file, kSparseBytes) == 0 && fstat(file, &status) == 0 &&
                    status.st_blocks * 512 < kSparseBytes;
  stage("fallocate");
  findings.punchHole =
      fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kAlignment) == 0;
  close(file);
  return findings;
}

bool isNetwork(const std::string& type) {
  return type.starts_with("nfs") || type == "cifs" || type == "smb3" || type == "9p" ||
         type == "ceph" || type == "lustre" || type == "virtiofs" || type.starts_with("fuse");
}

std::string describeDisk(const SystemTree& tree, const std::string& type, const struct stat& status,
                         const struct statvfs& space, const Findings& found) {
  std::string detail = type + ", " + bytesForPeople(space.f_bavail * space.f_frsize) + " of " +
                       bytesForPeople(space.f_blocks * space.f_frsize) + " free";
  const std::string device = deviceKind(tree,
                                        "/sys/dev/block/" + std::to_string(major(status.st_dev)) +
                                            ":" + std::to_string(minor(status.st_dev)),
                                        0);
  detail += device.empty() ? ", no block device of its own" : ", " + device;
  const auto add = [&](bool has, const char* what) {
    detail += std::string(", ") + (has ? "" : "no ") + what;
  };
  add(found.hardLinks, "hard links");
  add(found.directIo, "O_DIRECT");
  add(found.sparse, "sparse files");
  add(found.punchHole, "hole punching");
  return detail;
}

// The first thing that a cache would miss there.
Probe judge(const std::string& name, const std::string& type, const std::string& detail,
            const Findings& found) {
  if (!found.sparse) {
    return {name, ProbeStatus::kMissing, detail,
            "Cache files are sparse: use ext4 or xfs for the cache directory."};
  }
  if (!found.hardLinks) {
    return {name, ProbeStatus::kDegraded, detail,
            "No views without hard links; FUSE is used for all reads. Use ext4 or xfs."};
  }
  if (isNetwork(type)) {
    return {name, ProbeStatus::kDegraded, detail,
            "A cache on a network file system gains little: use a local disk with ext4 or xfs."};
  }
  if (type == "tmpfs" || type == "ramfs") {
    return {name, ProbeStatus::kDegraded, detail,
            "The cache takes memory and is lost at a restart: use a local disk with ext4 or xfs."};
  }
  if (type == "overlay") {
    return {name, ProbeStatus::kDegraded, detail,
            "This is a container's own layer: mount a disk of the node there."};
  }
  if (!found.directIo) {
    return {name, ProbeStatus::kDegraded, detail,
            "Without O_DIRECT every byte passes through the page cache: use ext4 or xfs."};
  }
  return {name, ProbeStatus::kOk, detail, ""};
}

}  // namespace

std::vector<Probe> probeDisk(const SystemTree& tree, const std::string& directory,
                             const Stage& stage) {
  const std::string name = "disk " + directory;
  stage("stat");
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    return {{name, ProbeStatus::kMissing, errnoError(errno, "stat " + directory).message,
             "Make the directory (`mkdir -p " + directory + "`) on the disk meant for the cache."}};
  }
  if (!S_ISDIR(status.st_mode)) {
    return {{name, ProbeStatus::kMissing, "it is not a directory", "Name a directory."}};
  }
  stage("statvfs");
  struct statvfs space {};
  if (statvfs(directory.c_str(), &space) != 0) {
    return {{name, ProbeStatus::kMissing, errnoError(errno, "statvfs " + directory).message,
             "Check the disk: look at `dmesg`."}};
  }
  const Result<Findings> tried = tryFile(directory, stage);
  if (!tried.ok()) {
    return {{name, ProbeStatus::kMissing, tried.error().message,
             "Give the agent's user the right to write there, and mount the disk read-write."}};
  }
  const Findings& found = *tried;
  char* real = realpath(directory.c_str(), nullptr);
  const std::string type = fileSystemType(tree, real == nullptr ? directory : real);
  free(real);
  const std::string detail = describeDisk(tree, type, status, space, found);
  return {judge(name, type, detail, found)};
}

}  // namespace hearth
