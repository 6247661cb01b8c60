// Capabilities of this machine for Hearth: kernel, disks, networks, RDMA, GPUs. The door of the
// room.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class ProbeStatus {
  kOk,        // there and usable
  kDegraded,  // usable with a slower or smaller path; `advice` says what is lost and how to get it
  kMissing,   // not there or unusable
};

// One row of `hearth doctor`.
struct Probe {
  std::string name;
  ProbeStatus status = ProbeStatus::kMissing;
  std::string detail;
  std::string advice;  // what to do; empty when ok
};

struct ProbeOptions {
  // Directories that are or will be caches; each gets a row, and passthrough is tried with each.
  std::vector<std::string> cacheDirectories;
  // Addresses of other machines' RDMA ports; each gets a row.
  std::vector<std::string> rdmaPeers;
  // For every probe together. cuInit of eight GPUs without the persistence daemon takes several
  // seconds, so this must not be short.
  std::chrono::milliseconds deadline{20000};
  // Put before /proc and /sys: tests bring a tree of their own.
  std::string root;
  // As dlopen takes them.
  std::string verbsLibrary = "libibverbs.so.1";
  std::string cudaLibrary = "libcuda.so.1";
  std::string cufileLibrary = "libcufile.so.0";
};

// Runs every probe, each in a child process of its own, all at once: a driver that crashes or hangs
// costs its row, never the caller. Returns within the deadline and half a second. Call it from a
// process with one thread (hearth-probe), because the children go on after fork without exec.
[[nodiscard]] std::vector<Probe> runProbes(const ProbeOptions& options);

// "ok", "degraded", "missing".
[[nodiscard]] std::string_view probeStatusName(ProbeStatus status);

// One JSON object, without a line end. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string probeJson(const Probe& probe);

}  // namespace hearth
