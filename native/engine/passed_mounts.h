// The door through which programs of other tenants get cached files of this node: descriptors by
// which they can read and nothing else, and which this process can tell to be closed.
//
// A descriptor of the file as the agent opens it would not do: root in a container, without any
// capability, owns the file, changes its mode by fchmod(2) and opens /proc/self/fd/N for writing.
// So each is opened through an idmapped, read-only mount (mount/idmapped_mount.h). That mount is of
// this one file and serves this one descriptor: the kernel refuses to unmount it (umount(2), EBUSY)
// until nobody has the descriptor, a copy of it or a mapping any more. No program can make the
// agent believe otherwise, and keep the room on the disk of a file that has been evicted.
//
// The mounts are in a mount namespace of their own, which has nothing else and ends with this
// process: they are at no path that others see.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// Calls block for system calls of a thread of its own, which take microseconds; any thread.
class PassedMounts {
 public:
  // kUnsupported, with the reason, where this process cannot make such mounts (CAP_SYS_ADMIN).
  [[nodiscard]] static Result<std::unique_ptr<PassedMounts>> create();
  // Descriptors that were passed stay good.
  ~PassedMounts();
  PassedMounts(const PassedMounts&) = delete;
  PassedMounts& operator=(const PassedMounts&) = delete;

  // Files below `path`, an absolute folder, may be passed: others may enter it and all folders
  // below it. kUnsupported, with the reason, where the file system has no such mounts. Not at the
  // same time as other calls.
  [[nodiscard]] Status add(std::string path);
  [[nodiscard]] bool contains(std::string_view file) const { return folderOf(file) != nullptr; }

  struct Passed {
    OwnedFd descriptor;  // for reading
    std::uint64_t number = 0;
  };
  // A descriptor of a regular file that contains() is true for and that others may read. Errors of
  // open(2) and of mounting.
  [[nodiscard]] Result<Passed> open(const std::string& file);
  // False once nobody has the descriptor; its number is of no use from then on.
  [[nodiscard]] bool isOpen(std::uint64_t number);
  // Looks at the descriptor no more. Does not wait.
  void forget(std::uint64_t number);

 private:
  struct Folder {
    std::string path;
    std::string mounted;  // in the namespace of the thread
  };
  PassedMounts() = default;
  void work();
  void post(std::function<void()> call);
  // Runs it on the thread, and returns when it has ended.
  void perform(const std::function<void()>& call);
  [[nodiscard]] const Folder* folderOf(std::string_view file) const;
  // On the thread. The mount is at `point`.
  [[nodiscard]] static Result<OwnedFd> mountAndOpen(const std::string& source,
                                                    const std::string& point);
  static void detach(const std::string& point);

  std::vector<Folder> folders_;
  std::atomic<std::uint64_t> last_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;  // at most one of each descriptor and each caller
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace hearth
