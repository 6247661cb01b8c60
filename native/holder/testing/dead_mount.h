// A file system that never answers: FUSE without a server. Whoever looks at a path in it waits
// until it is ended, or killed. For tests, as root, in a mount namespace of their own.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>

#include <string>
#include <utility>

#include "base/owned_fd.h"

namespace hearth::holder_testing {

class DeadMount {
 public:
  // On an existing directory.
  explicit DeadMount(std::string folder)
      : folder_(std::move(folder)), device_(open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    const std::string options =
        "fd=" + std::to_string(device_.get()) + ",rootmode=40000,user_id=0,group_id=0";
    mounted_ = mount("dead", folder_.c_str(), "fuse", 0, options.c_str()) == 0;
  }
  ~DeadMount() { end(); }
  DeadMount(const DeadMount&) = delete;
  DeadMount& operator=(const DeadMount&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  // Ends the connection; waiting callers get an error.
  void end() {
    device_.reset();
    if (std::exchange(mounted_, false)) umount2(folder_.c_str(), MNT_DETACH);
  }

 private:
  const std::string folder_;
  OwnedFd device_;
  bool mounted_ = false;
};

}  // namespace hearth::holder_testing
