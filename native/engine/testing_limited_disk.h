// Disks of a fixed speed: ext4 on loop devices over memory, whose writes the kernel's block layer
// holds back. For tests that run as root.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hearth::testing_support {

// Runs a command of the shell. Its standard output without the last newline; nothing when it fails.
inline std::string outputOf(const std::string& command) {
  std::string output;
  FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return output;
  char piece[256];
  while (fgets(piece, sizeof piece, pipe) != nullptr) output += piece;
  const bool done = pclose(pipe) == 0;
  if (!output.empty() && output.back() == '\n') output.pop_back();
  return done ? output : "";
}

class LimitedDisk {
 public:
  // `folder`: of the image and of the mount point; the image takes `bytes` there at once.
  LimitedDisk(const std::string& folder, const std::string& name, std::uint64_t bytes)
      : path_(folder + "/" + name) {
    const std::string image = path_ + ".image";
    std::filesystem::create_directories(path_);
    if (std::system(("fallocate -l " + std::to_string(bytes) + " " + image).c_str()) != 0) return;
    device_ = outputOf("losetup --find --show " + image);
    if (device_.empty()) return;
    mounted_ = std::system(("mkfs.ext4 -q -E lazy_itable_init=0,nodiscard " + device_ +
                            " && mount " + device_ + " " + path_)
                               .c_str()) == 0;
  }
  ~LimitedDisk() {
    if (mounted_) (void)std::system(("umount -l " + path_).c_str());
    if (!device_.empty()) (void)std::system(("losetup --detach " + device_).c_str());
  }
  LimitedDisk(const LimitedDisk&) = delete;
  LimitedDisk& operator=(const LimitedDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string path() const { return path_ + "/cache"; }
  // Returns when the disk has all that was written and removed there.
  void settle() const { (void)std::system(("sync --file-system " + path_).c_str()); }
  // MAJOR:MINOR.
  [[nodiscard]] std::string number() const {
    struct stat about {};
    if (stat(device_.c_str(), &about) != 0) return "";
    return std::to_string(major(about.st_rdev)) + ":" + std::to_string(minor(about.st_rdev));
  }

 private:
  const std::string path_;
  std::string device_;
  bool mounted_ = false;
};

// Limits of the block layer, from set() until the destructor: those of the root group where the
// kernel has blkio groups of version 1, which count the write-back of the page cache there; else
// those of a group that this process joins.
class WriteLimit {
 public:
  WriteLimit() : unified_(std::filesystem::exists("/sys/fs/cgroup/cgroup.controllers")) {
    if (!unified_) return;
    write(kUnified + "/cgroup.subtree_control", "+io +memory");
    std::error_code ignored;
    std::filesystem::create_directory(group_, ignored);
    write(group_ + "/cgroup.procs", std::to_string(getpid()));
  }
  ~WriteLimit() {
    for (const std::string& number : limited_) {
      if (!unified_) write(file(), number + " 0");
    }
    if (!unified_) return;
    write(kUnified + "/cgroup.procs", std::to_string(getpid()));
    rmdir(group_.c_str());
  }
  WriteLimit(const WriteLimit&) = delete;
  WriteLimit& operator=(const WriteLimit&) = delete;

  // False: the kernel cannot.
  [[nodiscard]] bool set(const LimitedDisk& disk, std::uint64_t bytesPerSecond) {
    limited_.push_back(disk.number());
    return write(file(),
                 disk.number() + (unified_ ? " wbps=" : " ") + std::to_string(bytesPerSecond));
  }

 private:
  static bool write(const std::string& file, const std::string& text) {
    std::ofstream to(file);
    to << text << std::flush;
    return to.good();
  }
  [[nodiscard]] std::string file() const {
    return unified_ ? group_ + "/io.max" : "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";
  }

  inline static const std::string kUnified = "/sys/fs/cgroup";
  const bool unified_;
  const std::string group_ = kUnified + "/hearth-test-" + std::to_string(getpid());
  std::vector<std::string> limited_;
};

}  // namespace hearth::testing_support
