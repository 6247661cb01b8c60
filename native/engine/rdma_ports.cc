#include "engine/rdma_ports.h"

#include <fnmatch.h>

#include <algorithm>

#include "verbs/loaded_verbs.h"

namespace hearth {
namespace {

bool matches(const std::string& pattern, const std::string& port) {
  const std::string device = port.substr(0, port.rfind('/'));
  return ::fnmatch(pattern.c_str(), port.c_str(), 0) == 0 ||
         ::fnmatch(pattern.c_str(), device.c_str(), 0) == 0;
}

// Refusals that are of no port are of the whole library, and so of all ports.
bool wanted(const RdmaOptions& options, const std::string& port) {
  return options.devices.empty() || port.empty() ||
         std::ranges::any_of(options.devices,
                             [&](const std::string& pattern) { return matches(pattern, port); });
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}

Error noneOf(const Devices& found, const RdmaOptions& options) {
  std::vector<std::string> names, reasons;
  ErrorCode code = ErrorCode::kNotFound;
  for (const std::shared_ptr<Device>& device : found.usable) names.emplace_back(device->name());
  for (const Devices::Refusal& refusal : found.refused) {
    if (!refusal.port.empty()) names.push_back(refusal.port);
    if (!wanted(options, refusal.port)) continue;
    code = refusal.reason.code;
    reasons.push_back(refusal.reason.message);
  }
  if (!reasons.empty()) return {code, joined(reasons, "; ")};
  if (names.empty()) {
    return {code,
            "this machine shows no RDMA device (/sys/class/infiniband is empty); load the driver "
            "of the network card, and give a container the device files in /dev/infiniband"};
  }
  return {code, "no port matches " + joined(options.devices, ", ") + " (rdma.devices); there are " +
                    joined(names, ", ")};
}

const char* linkOf(const Device& device) {
  switch (device.gid().type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "";
}

RdmaStatistics::Port describe(const Device& device) {
  RdmaStatistics::Port port;
  port.name = device.name();
  port.active = device.usable();
  port.link = linkOf(device);
  port.gid = textOf(device.gid().gid);
  port.mtuBytes = device.port().mtuBytes;
  port.bitsPerSecond = device.port().bitsPerSecond;
  port.numaNode = device.port().numaNode;
  port.pciPath = device.port().pciPath;
  return port;
}

}  // namespace

Result<std::shared_ptr<Verbs>> verbsOfMachine(const std::string& library) {
  return library.empty() ? loadVerbs() : loadVerbs(library);
}

Result<RdmaPorts> RdmaPorts::open(const RdmaOptions& options) {
  RdmaPorts ports;
  ports.use_ = options.use;
  if (options.use == RdmaUse::kOff) return ports;
  const Result<std::shared_ptr<Verbs>> verbs = options.load(options.library);
  Devices found;
  if (verbs.ok()) {
    found = openDevices(*verbs);
  } else {
    found.refused.push_back({"", verbs.error()});
  }
  for (std::shared_ptr<Device>& device : found.usable) {
    if (wanted(options, std::string(device->name()))) ports.devices_.push_back(device);
  }
  for (const Devices::Refusal& refusal : found.refused) {
    if (wanted(options, refusal.port))
      ports.refused_.push_back({refusal.port, refusal.reason.message});
  }
  if (!ports.devices_.empty()) return ports;
  const Error none = noneOf(found, options);
  if (options.use == RdmaUse::kRequired) return required(none);
  ports.reason_ = none.message;
  return ports;
}

Error RdmaPorts::required(const Error& reason) {
  return {reason.code, "RDMA is required and cannot be used: " + reason.message +
                           ". Mend that, or set rdma to auto to go on over TCP"};
}

Status RdmaPorts::pin(const std::shared_ptr<Device>& port, std::span<const ArenaRegion> regions) {
  for (const ArenaRegion& region : regions) {
    const auto known = region.memory->registrationWith(port);
    if (!known.ok()) return known.error().within(std::string(port->name()));
  }
  return {};
}

void RdmaPorts::note(const Status& status) {
  if (!status.ok() && reason_.empty()) reason_ = status.error().message;
}

RdmaStatistics RdmaPorts::statistics() const {
  RdmaStatistics statistics;
  statistics.use = use_;
  statistics.reason = reason_;
  statistics.refused = refused_;
  for (const std::shared_ptr<Device>& device : devices_)
    statistics.ports.push_back(describe(*device));
  if (statistics.ports.empty()) return statistics;
  RdmaStatistics::Port& used = statistics.ports.front();
  used.used = true;
  if (!reason_.empty()) return statistics;
  if (!used.active) {
    statistics.reason = used.name + " is down or has failed; check its cable and its switch";
  } else if (!isPinned_) {
    statistics.reason = "the memory for chunks is being pinned";
  }
  return statistics;
}

}  // namespace hearth
