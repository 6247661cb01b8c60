#include "probe/probe.h"

#include "base/json_string.h"
#include "probe/contained.h"
#include "probe/probes.h"
#include "probe/rdma_gids.h"
#include "probe/system_tree.h"

namespace hearth {

std::string_view probeStatusName(ProbeStatus status) {
  switch (status) {
    case ProbeStatus::kOk:
      return "ok";
    case ProbeStatus::kDegraded:
      return "degraded";
    case ProbeStatus::kMissing:
      return "missing";
  }
  return "missing";
}

std::string probeJson(const Probe& probe) {
  return "{\"name\":" + jsonString(probe.name) +
         ",\"status\":" + jsonString(probeStatusName(probe.status)) +
         ",\"detail\":" + jsonString(probe.detail) + ",\"advice\":" + jsonString(probe.advice) +
         "}";
}

std::vector<Probe> runProbes(const ProbeOptions& options) {
  const SystemTree tree(options.root);
  std::vector<ContainedTask> tasks{
      {"kernel", [&](const Stage&) { return probeKernel(); }},
      {"io_uring", [&](const Stage&) { return probeRing(tree); }},
      {"fuse", [&](const Stage&) { return probeFuseDevice(); }},
      {"fuse passthrough",
       [&](const Stage& stage) { return probePassthrough(options.cacheDirectories, stage); }},
      {"memory", [&](const Stage&) { return probeMemory(tree); }},
      {"huge pages", [&](const Stage&) { return probeHugePages(tree); }},
      {"arena pages", [&](const Stage&) { return probeArena(); }},
      {"limits", [&](const Stage&) { return probeLimits(); }},
      {"cgroup", [&](const Stage&) { return probeControlGroup(tree); }},
      {"clock", [&](const Stage&) { return probeClock(); }},
  };
  for (const std::string& directory : options.cacheDirectories) {
    tasks.push_back({"disk " + directory,
                     [&](const Stage& stage) { return probeDisk(tree, directory, stage); }});
  }
  tasks.push_back({"network", [&](const Stage&) { return probeNetwork(tree); }});
  tasks.push_back({"rdma", [&](const Stage&) { return probeRdmaDevices(tree); }});
  tasks.push_back({"rdma ports", [&](const Stage&) { return probeRdmaPorts(tree); }});
  tasks.push_back({"device files", [&](const Stage&) { return probeRdmaFiles(tree); }});
  for (const std::string& peer : options.rdmaPeers) {
    tasks.push_back({"route " + peer, [&](const Stage&) { return probeRdmaRoute(tree, peer); }});
  }
  tasks.push_back({"rdma places", [&](const Stage&) { return probeRdmaPlaces(tree); }});
  tasks.push_back({"peer memory", [&](const Stage&) { return probePeerMemory(tree); }});
  tasks.push_back(
      {"verbs", [&](const Stage& stage) { return probeVerbs(options.verbsLibrary, stage); }});
  tasks.push_back({"gpu", [&](const Stage&) { return probeGpus(tree); }});
  tasks.push_back(
      {"cuda", [&](const Stage& stage) { return probeCuda(options.cudaLibrary, stage); }});
  tasks.push_back({"nvidia-fs", [&](const Stage&) { return probeNvidiaFs(tree); }});
  tasks.push_back(
      {"cufile", [&](const Stage& stage) { return probeCufile(options.cufileLibrary, stage); }});
  tasks.push_back(
      {"gpu path", [&](const Stage& stage) { return probeGpuPath(options, "", stage); }});
  for (const std::string& directory : options.cacheDirectories) {
    tasks.push_back({"gpu path " + directory,
                     [&](const Stage& stage) { return probeGpuPath(options, directory, stage); }});
  }
  return runContained(tasks, options.deadline);
}

}  // namespace hearth
