#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <map>

#include "base/result.h"
#include "probe/probes.h"
#include "probe/sizes.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr rlim_t kWantedFiles = 65536;

// Bytes by name of /proc/meminfo.
std::map<std::string, std::uint64_t> memoryInfo(const SystemTree& tree) {
  std::map<std::string, std::uint64_t> values;
  for (const std::string& line : tree.lines("/proc/meminfo")) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::uint64_t value = std::strtoull(line.c_str() + colon + 1, nullptr, 10);
    values[line.substr(0, colon)] = line.ends_with(" kB") ? value * 1024 : value;
  }
  return values;
}

std::string limitForPeople(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? bytesForPeople(limit) : std::to_string(limit);
}

// CAP_IPC_LOCK in the effective set: RLIMIT_MEMLOCK does not bind such a process.
bool mayLockMemory() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  constexpr unsigned kIpcLock = 14;
  if (syscall(SYS_capget, &header, data) != 0) return false;
  return (data[0].effective & (1U << kIpcLock)) != 0;
}

}  // namespace

std::vector<Probe> probeMemory(const SystemTree& tree) {
  std::map<std::string, std::uint64_t> info = memoryInfo(tree);
  const std::uint64_t total = info["MemTotal"];
  if (total == 0) {
    return {{"memory", ProbeStatus::kMissing, "/proc/meminfo cannot be read", "Mount /proc."}};
  }
  const std::string detail =
      bytesForPeople(total) + ", " + bytesForPeople(info["MemAvailable"]) + " available";
  if (info["MemAvailable"] < kGiB) {
    return {{"memory", ProbeStatus::kDegraded, detail,
             "Less than 1 GiB is available: the page cache cannot hold what is read. Free some or "
             "give the machine more."}};
  }
  return {{"memory", ProbeStatus::kOk, detail, ""}};
}

std::vector<Probe> probeHugePages(const SystemTree& tree) {
  const std::string base = "/sys/kernel/mm/hugepages/";
  std::string detail;
  std::int64_t reserved = 0;
  for (const std::string& pool : tree.names(base)) {  // "hugepages-2048kB"
    const std::size_t dash = pool.find('-');
    if (dash == std::string::npos) continue;
    const std::uint64_t size = std::strtoull(pool.c_str() + dash + 1, nullptr, 10) * 1024;
    const std::int64_t pages = tree.number(base + pool + "/nr_hugepages").value_or(0);
    const std::int64_t unused = tree.number(base + pool + "/free_hugepages").value_or(0);
    detail += (detail.empty() ? "" : ", ") + std::to_string(pages) + " pages of " +
              bytesForPeople(size) + " (" + std::to_string(unused) + " free)";
    reserved += pages;
  }
  if (detail.empty()) {
    return {{"huge pages", ProbeStatus::kMissing, "the kernel has no hugetlbfs",
             "Run a kernel with CONFIG_HUGETLBFS for the memory tier."}};
  }
  if (const auto mode = tree.text("/sys/kernel/mm/transparent_hugepage/enabled")) {
    detail += ", transparent: " + *mode;
  }
  if (reserved == 0) {
    return {{"huge pages", ProbeStatus::kDegraded, detail,
             "None are reserved; buffers use transparent or small pages. Reserve some at boot: "
             "`sysctl vm.nr_hugepages=N`."}};
  }
  return {{"huge pages", ProbeStatus::kOk, detail, ""}};
}

std::vector<Probe> probeLimits() {
  rlimit files{};
  rlimit locked{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || getrlimit(RLIMIT_MEMLOCK, &locked) != 0) {
    return {{"limits", ProbeStatus::kMissing, errnoError(errno, "getrlimit").message,
             "Allow getrlimit in the seccomp profile."}};
  }
  const bool mayLock = mayLockMemory();
  const std::string detail =
      "open files " + limitForPeople(files.rlim_cur, false) + " (may be " +
      limitForPeople(files.rlim_max, false) + "), locked memory " +
      (mayLock ? "unlimited (CAP_IPC_LOCK)" : limitForPeople(locked.rlim_max, true));
  std::string advice;
  if (files.rlim_max < kWantedFiles) {
    advice = "Raise the limit of open files to 65536 or more (LimitNOFILE= of the service).";
  }
  if (!mayLock && locked.rlim_max < 64 * kMiB) {
    advice += advice.empty() ? "" : " ";
    advice +=
        "Raise the limit of locked memory (LimitMEMLOCK=infinity) or grant CAP_IPC_LOCK: "
        "registered buffers and RDMA need it.";
  }
  const ProbeStatus status = advice.empty() ? ProbeStatus::kOk : ProbeStatus::kDegraded;
  return {{"limits", status, detail, advice}};
}

std::vector<Probe> probeControlGroup(const SystemTree& tree) {
  const std::string base = "/sys/fs/cgroup";
  if (!tree.exists(base + "/cgroup.controllers")) {
    return {{"cgroup", ProbeStatus::kDegraded, "version 1 or not mounted",
             "Limits of memory and processors are not seen. Boot with "
             "systemd.unified_cgroup_hierarchy=1."}};
  }
  std::string path = "/";
  for (const std::string& line : tree.lines("/proc/self/cgroup")) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  // Inside a container the path may be one of the host's: then the root of what is mounted is ours.
  const std::string own = tree.exists(base + path + "/cgroup.procs") ? base + path : base;
  const std::string memory = tree.text(own + "/memory.max").value_or("max");
  const std::string processors = tree.text(own + "/cpu.max").value_or("max");
  std::string detail = "version 2, " + path;
  detail += memory == "max"
                ? ", memory not limited"
                : ", memory limit " + bytesForPeople(std::strtoull(memory.c_str(), nullptr, 10));
  detail += processors.starts_with("max") ? ", processors not limited" : ", cpu.max " + processors;
  if (memory != "max" && std::strtoull(memory.c_str(), nullptr, 10) < kGiB) {
    return {
        {"cgroup", ProbeStatus::kDegraded, detail,
         "The memory limit counts the page cache of the files that are read here: give 1 GiB or "
         "more."}};
  }
  return {{"cgroup", ProbeStatus::kOk, detail, ""}};
}

std::vector<Probe> probeClock() {
  timespec boot{};
  if (clock_gettime(CLOCK_BOOTTIME, &boot) != 0) {
    return {{"clock", ProbeStatus::kMissing, errnoError(errno, "CLOCK_BOOTTIME").message,
             "Leases need CLOCK_BOOTTIME: run on Linux 5.10 or later."}};
  }
  const bool hours = boot.tv_sec >= 7200;
  const std::string up = "booted " + std::to_string(boot.tv_sec / (hours ? 3600 : 60)) +
                         (hours ? " h ago" : " min ago");
  timex state{};
  const int answer = adjtimex(&state);
  if (answer < 0) {
    return {{"clock", ProbeStatus::kDegraded, up + "; " + errnoError(errno, "adjtimex").message,
             "Whether the clock is synchronised is not known here: check it on the host with "
             "`timedatectl`."}};
  }
  if (answer == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
    return {{"clock", ProbeStatus::kDegraded, up + "; not synchronised",
             "Presigned URLs and certificates fail when the clock is wrong: run chrony or "
             "systemd-timesyncd."}};
  }
  // maxerror is in microseconds (adjtimex(2)).
  return {{"clock", ProbeStatus::kOk,
           up + "; synchronised, error at most " + std::to_string(state.maxerror / 1000) + " ms",
           ""}};
}

}  // namespace hearth
