// The probes, one function each. Every one of them runs in a child process (contained.h), may block
// and may crash with the driver it asks; `stage` reports to the parent what is being tried, so that
// its row can say where the child was lost.
#pragma once

#include <string>
#include <vector>

#include "arena/arena_pages.h"
#include "probe/contained.h"
#include "probe/probe.h"
#include "probe/system_tree.h"

namespace hearth {

[[nodiscard]] std::vector<Probe> probeKernel();
[[nodiscard]] std::vector<Probe> probeRing(const SystemTree& tree);

[[nodiscard]] std::vector<Probe> probeFuseDevice();
// Mounts a FUSE file system in a mount namespace of its own and registers a backing file of each
// directory (and one in memory). Leaves nothing behind.
[[nodiscard]] std::vector<Probe> probePassthrough(const std::vector<std::string>& directories,
                                                  const Stage& stage);

[[nodiscard]] std::vector<Probe> probeMemory(const SystemTree& tree);
[[nodiscard]] std::vector<Probe> probeHugePages(const SystemTree& tree);
// Which pages the memory of an agent would be of, and why not of better ones.
[[nodiscard]] std::vector<Probe> probeArena(const ArenaPages& pages = probeArenaPages());
[[nodiscard]] std::vector<Probe> probeLimits();
[[nodiscard]] std::vector<Probe> probeControlGroup(const SystemTree& tree);
[[nodiscard]] std::vector<Probe> probeClock();

// Writes and removes a small file in the directory.
[[nodiscard]] std::vector<Probe> probeDisk(const SystemTree& tree, const std::string& directory,
                                           const Stage& stage);

// One row for each network interface that is up and has an address.
[[nodiscard]] std::vector<Probe> probeNetwork(const SystemTree& tree);
// RDMA devices as the kernel shows them, one row each.
[[nodiscard]] std::vector<Probe> probeRdmaDevices(const SystemTree& tree);
// Where there is no RDMA device these give no row. Of each port its addresses, and of RoCE the size
// of its packets.
[[nodiscard]] std::vector<Probe> probeRdmaPorts(const SystemTree& tree);
// True when this process may open /dev/infiniband/uverbs*.
[[nodiscard]] std::vector<Probe> probeRdmaFiles(const SystemTree& tree);
// The devices that are nearest to each GPU, and those of each NUMA node where there are several.
[[nodiscard]] std::vector<Probe> probeRdmaPlaces(const SystemTree& tree);
// How devices reach the memory of GPUs; no row without a GPU.
[[nodiscard]] std::vector<Probe> probePeerMemory(const SystemTree& tree);
[[nodiscard]] std::vector<Probe> probeVerbs(const std::string& library, const Stage& stage);

// NVIDIA GPUs on the PCI bus and in the driver's list.
[[nodiscard]] std::vector<Probe> probeGpus(const SystemTree& tree);
[[nodiscard]] std::vector<Probe> probeCuda(const std::string& library, const Stage& stage);
[[nodiscard]] std::vector<Probe> probeNvidiaFs(const SystemTree& tree);
[[nodiscard]] std::vector<Probe> probeCufile(const std::string& library, const Stage& stage);
// The path of bytes from disks to the first GPU: direct, bounced or none, and why no better one.
// With a directory: of its files, tried with a small one that is removed again.
[[nodiscard]] std::vector<Probe> probeGpuPath(const ProbeOptions& options,
                                              const std::string& directory, const Stage& stage);

}  // namespace hearth
