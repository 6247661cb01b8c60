#include <cerrno>
#include <cstring>

#include "base/dynamic_library.h"
#include "probe/probes.h"

namespace hearth {
namespace {

struct VerbsDevice;
struct VerbsContext;

// The functions of libibverbs (rdma-core, libibverbs/verbs.h) that show whether a device opens.
struct VerbsFunctions {
  VerbsDevice** (*getDeviceList)(int* count);
  void (*freeDeviceList)(VerbsDevice** list);
  const char* (*getDeviceName)(VerbsDevice* device);
  VerbsContext* (*openDevice)(VerbsDevice* device);
  int (*closeDevice)(VerbsContext* context);
};

Result<VerbsFunctions> loadVerbs(const DynamicLibrary& library) {
  VerbsFunctions verbs{};
  for (const Status& status : {library.load("ibv_get_device_list", verbs.getDeviceList),
                               library.load("ibv_free_device_list", verbs.freeDeviceList),
                               library.load("ibv_get_device_name", verbs.getDeviceName),
                               library.load("ibv_open_device", verbs.openDevice),
                               library.load("ibv_close_device", verbs.closeDevice)}) {
    if (!status.ok()) return status.error();
  }
  return verbs;
}

Probe verbsRow(ProbeStatus status, std::string detail, std::string advice) {
  return {"verbs", status, std::move(detail), std::move(advice)};
}

constexpr const char* kTcpServes = "TCP is used. For RDMA: ";

// A port's row text: "port 1 ACTIVE InfiniBand 400 Gb/sec (4X NDR)"; sysfs,
// ABI/stable/sysfs-class-infiniband.
std::string portText(const SystemTree& tree, const std::string& base, const std::string& port,
                     bool& active) {
  std::string state = tree.text(base + "/state").value_or("unknown");  // "4: ACTIVE"
  if (const std::size_t colon = state.find(": "); colon != std::string::npos) {
    state = state.substr(colon + 2);
  }
  active = active || state == "ACTIVE";
  std::string text = "port " + port + " " + state;
  if (const auto layer = tree.text(base + "/link_layer")) text += " " + *layer;
  if (const auto rate = tree.text(base + "/rate")) text += " " + *rate;
  if (const auto net = tree.text(base + "/gid_attrs/ndevs/0")) text += " (" + *net + ")";
  return text;
}

}  // namespace

std::vector<Probe> probeRdmaDevices(const SystemTree& tree) {
  const std::string base = "/sys/class/infiniband";
  std::vector<Probe> rows;
  for (const std::string& device : tree.names(base)) {
    Probe row{"rdma " + device, ProbeStatus::kOk, "", ""};
    bool active = false;
    for (const std::string& port : tree.names(base + "/" + device + "/ports")) {
      const std::string text = portText(tree, base + "/" + device + "/ports/" + port, port, active);
      row.detail += (row.detail.empty() ? "" : "; ") + text;
    }
    if (!active) {
      row.status = ProbeStatus::kDegraded;
      row.advice =
          "No port is active: check the cable, the switch and, on InfiniBand, the subnet manager.";
      if (row.detail.empty()) row.detail = "no ports";
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty() && !tree.exists("/sys/class")) {
    rows.push_back({"rdma", ProbeStatus::kMissing, "/sys is not mounted, so no device is seen",
                    std::string(kTcpServes) + "mount /sys in the container; read-only suffices."});
  } else if (rows.empty()) {
    rows.push_back(
        {"rdma", ProbeStatus::kMissing, "no device under " + base,
         std::string(kTcpServes) +
             "install an RDMA NIC and load its driver (for example `modprobe mlx5_ib`)."});
  }
  return rows;
}

std::vector<Probe> probeVerbs(const std::string& name, const Stage& stage) {
  stage("dlopen " + name);
  const Result<DynamicLibrary> library = DynamicLibrary::open(name);
  if (!library.ok()) {
    return {verbsRow(ProbeStatus::kMissing, library.error().message,
                     std::string(kTcpServes) + "install libibverbs1 and ibverbs-providers.")};
  }
  const Result<VerbsFunctions> verbs = loadVerbs(*library);
  if (!verbs.ok()) {
    return {verbsRow(ProbeStatus::kMissing, verbs.error().message,
                     std::string(kTcpServes) + "install libibverbs1 of rdma-core 17 or later.")};
  }
  stage("ibv_get_device_list");
  errno = 0;
  int count = 0;
  VerbsDevice** list = verbs->getDeviceList(&count);
  if (list == nullptr) {
    const int error = errno;
    return {verbsRow(
        ProbeStatus::kMissing, std::string("ibv_get_device_list failed: ") + strerror(error),
        std::string(kTcpServes) + (error == ENOSYS ? "load the kernel module ib_uverbs."
                                                   : "check /dev/infiniband and the driver."))};
  }
  std::string opened;
  std::string refused;
  for (int index = 0; index < count; ++index) {
    const std::string device = verbs->getDeviceName(list[index]);
    stage("ibv_open_device " + device);
    errno = 0;
    VerbsContext* context = verbs->openDevice(list[index]);
    if (context != nullptr) {
      verbs->closeDevice(context);
      opened += (opened.empty() ? "" : ", ") + device;
    } else {
      refused += (refused.empty() ? "" : ", ") + device + " (" + strerror(errno) + ")";
    }
  }
  verbs->freeDeviceList(list);
  if (count == 0) {
    return {verbsRow(
        ProbeStatus::kMissing, name + " works but finds no device",
        std::string(kTcpServes) + "see the row `rdma`; in a container add /dev/infiniband.")};
  }
  if (opened.empty()) {
    return {verbsRow(ProbeStatus::kMissing, "no device opens: " + refused,
                     std::string(kTcpServes) +
                         "allow /dev/infiniband/uverbs* and raise the limit of locked memory.")};
  }
  if (!refused.empty()) {
    return {verbsRow(ProbeStatus::kDegraded, opened + " open; not " + refused,
                     "Allow /dev/infiniband/uverbs* of the others.")};
  }
  return {verbsRow(ProbeStatus::kOk, opened + " open", "")};
}

}  // namespace hearth
