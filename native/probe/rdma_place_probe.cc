// Which RDMA devices are near: to GPUs by the tree of PCI bridges, and to processors by NUMA nodes.
#include <filesystem>

#include "probe/probes.h"

namespace hearth {
namespace {

constexpr const char* kVendorOfGpus = "0x10de";

// From near to far, as nvidia-smi topo has them: PIX or PXB, PHB, NODE, SYS.
enum class Distance : std::uint8_t { kOneSwitch, kOneHostBridge, kOneNode, kOtherNode };

const char* textOf(Distance distance) {
  switch (distance) {
    case Distance::kOneSwitch:
      return "behind the same PCIe switch";
    case Distance::kOneHostBridge:
      return "on the same PCIe host bridge";
    case Distance::kOneNode:
      return "on the same NUMA node";
    case Distance::kOtherNode:
      return "on another NUMA node";
  }
  return "";
}

struct PciDevice {
  std::string name;
  std::filesystem::path path;  // in /sys/devices
  std::int64_t node = -1;
};

std::vector<PciDevice> rdmaDevices(const SystemTree& tree) {
  std::vector<PciDevice> devices;
  const std::string base = "/sys/class/infiniband/";
  for (const std::string& name : tree.names(base)) {
    // A device of software has no place.
    const auto place = tree.resolved(base + name + "/device");
    if (!place) continue;
    devices.push_back({name, *place, tree.number(base + name + "/device/numa_node").value_or(-1)});
  }
  return devices;
}

std::vector<PciDevice> gpus(const SystemTree& tree) {
  std::vector<PciDevice> found;
  const std::string base = "/sys/bus/pci/devices/";
  for (const std::string& name : tree.names(base)) {
    const std::string kind = tree.text(base + name + "/class").value_or("");
    const bool isGpu = kind.starts_with("0x0300") || kind.starts_with("0x0302");
    if (!isGpu || tree.text(base + name + "/vendor") != kVendorOfGpus) continue;
    const auto place = tree.resolved(base + name);
    if (place)
      found.push_back({name, *place, tree.number(base + name + "/numa_node").value_or(-1)});
  }
  return found;
}

// Two devices below one port share a switch there, since a link of PCIe has two ends.
Distance distanceBetween(const PciDevice& a, const PciDevice& b) {
  std::size_t bridges = 0;
  bool isOneHost = false;
  for (auto left = a.path.begin(), right = b.path.begin();
       left != a.path.end() && right != b.path.end() && *left == *right; ++left, ++right) {
    const std::string part = left->string();
    isOneHost = isOneHost || part.starts_with("pci");
    bridges += isOneHost && !part.starts_with("pci") ? 1 : 0;
  }
  if (bridges > 0) return Distance::kOneSwitch;
  if (isOneHost) return Distance::kOneHostBridge;
  return a.node == b.node ? Distance::kOneNode : Distance::kOtherNode;
}

Probe nearGpu(const PciDevice& gpu, const std::vector<PciDevice>& devices) {
  Distance nearest = Distance::kOtherNode;
  for (const PciDevice& device : devices) nearest = std::min(nearest, distanceBetween(gpu, device));
  Probe row{"near gpu " + gpu.name, ProbeStatus::kOk, "", ""};
  for (const PciDevice& device : devices) {
    if (distanceBetween(gpu, device) != nearest) continue;
    row.detail += (row.detail.empty() ? "" : ", ") + device.name;
  }
  row.detail += std::string(" ") + textOf(nearest);
  if (nearest == Distance::kOtherNode) {
    row.status = ProbeStatus::kDegraded;
    row.advice =
        "Bytes for this GPU cross the link between the processors: put an RDMA card on the GPU's "
        "side, if the machine has a slot there.";
  }
  return row;
}

std::vector<Probe> nearNodes(const SystemTree& tree, const std::vector<PciDevice>& devices) {
  std::vector<Probe> rows;
  for (const std::string& name : tree.names("/sys/devices/system/node")) {
    if (!name.starts_with("node") || name.find_first_of("0123456789") != 4) continue;
    Probe row{"near NUMA node " + name.substr(4), ProbeStatus::kOk, "", ""};
    for (const PciDevice& device : devices) {
      if (std::to_string(device.node) != name.substr(4)) continue;
      row.detail += (row.detail.empty() ? "" : ", ") + device.name;
    }
    if (row.detail.empty()) {
      row.status = ProbeStatus::kDegraded;
      row.detail = "no RDMA device";
      row.advice =
          "Memory of this node is reached over the link between the processors: bind agents to a "
          "node with a device (`numactl --cpunodebind`), or put a card there.";
    }
    rows.push_back(std::move(row));
  }
  // Everything is near on a machine of one node.
  if (rows.size() == 1) rows.clear();
  return rows;
}

}  // namespace

std::vector<Probe> probeRdmaPlaces(const SystemTree& tree) {
  const std::vector<PciDevice> devices = rdmaDevices(tree);
  if (devices.empty()) return {};
  std::vector<Probe> rows;
  for (const PciDevice& gpu : gpus(tree)) rows.push_back(nearGpu(gpu, devices));
  for (Probe& row : nearNodes(tree, devices)) rows.push_back(std::move(row));
  return rows;
}

std::vector<Probe> probePeerMemory(const SystemTree& tree) {
  if (gpus(tree).empty() || rdmaDevices(tree).empty()) return {};
  Probe row{"peer memory", ProbeStatus::kOk, "", ""};
  for (const std::string& line : tree.lines("/proc/modules")) {
    const std::string module = line.substr(0, line.find(' '));
    if (module == "nvidia_peermem" || module == "nv_peer_mem") row.detail = module + " is loaded";
  }
  const std::string driver = tree.text("/proc/driver/nvidia/version").value_or("");
  if (row.detail.empty() && driver.find("Open Kernel Module") != std::string::npos)
    row.detail = "the driver's open modules export the memory of GPUs by dma-buf";
  if (row.detail.empty()) {
    row.status = ProbeStatus::kDegraded;
    row.detail = "RDMA devices cannot reach the memory of GPUs";
    row.advice =
        "Load `nvidia-peermem`, or install the driver's open kernel modules, which have dma-buf.";
  }
  row.detail += "; agents read into memory of the host so far";
  return {row};
}

}  // namespace hearth
