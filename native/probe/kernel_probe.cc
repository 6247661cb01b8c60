#include <sys/utsname.h>

#include <cstdio>

#include "probe/probes.h"
#include "reactor/uring_backend.h"

namespace hearth {

std::vector<Probe> probeKernel() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) {
    return {{"kernel", ProbeStatus::kMissing, "the kernel does not report its version",
             "Run on Linux 5.10 or later."}};
  }
  const std::string detail = std::string(name.sysname) + " " + name.release + " " + name.machine;
  const auto before = [&](int wantMajor, int wantMinor) {
    return major < wantMajor || (major == wantMajor && minor < wantMinor);
  };
  if (before(5, 10)) {
    return {{"kernel", ProbeStatus::kMissing, detail, "Hearth needs Linux 5.10 or later."}};
  }
  if (before(6, 9)) {
    return {{"kernel", ProbeStatus::kDegraded, detail,
             "Files that a view cannot serve go through the daemon: FUSE passthrough came with "
             "Linux 6.9."}};
  }
  return {{"kernel", ProbeStatus::kOk, detail, ""}};
}

std::vector<Probe> probeRing(const SystemTree& tree) {
  const auto reactor = UringReactor::create();
  if (reactor.ok()) return {{"io_uring", ProbeStatus::kOk, "usable", ""}};
  const auto disabled = tree.number("/proc/sys/kernel/io_uring_disabled");
  const std::string advice =
      disabled.value_or(0) != 0
          ? "The engine falls back to epoll and threads for files. Allow it: "
            "`sysctl kernel.io_uring_disabled=0`."
          : "The engine falls back to epoll and threads for files. Allow io_uring in the seccomp "
            "profile of the container, or run a kernel with CONFIG_IO_URING.";
  return {{"io_uring", ProbeStatus::kDegraded, reactor.error().message, advice}};
}

}  // namespace hearth
