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

// A refusal without a port is of the whole library, and so of all ports.
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
  for (const std::shared_ptr<RdmaDevice>& device : found.usable) names.emplace_back(device->name());
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

const char* linkOf(const RdmaDevice& device) {
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

RdmaStatistics::Port describe(const RdmaDevice& device) {
  RdmaStatistics::Port port;
  port.name = device.name();
  port.active = device.usable();
  port.hasWindows = device.limits().hasWindows;
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
  for (std::shared_ptr<RdmaDevice>& device : found.usable) {
    if (wanted(options, std::string(device->name()))) ports.ports_.push_back({.device = device});
  }
  for (const Devices::Refusal& refusal : found.refused) {
    if (wanted(options, refusal.port))
      ports.refused_.push_back({refusal.port, refusal.reason.message});
  }
  if (!ports.ports_.empty()) return ports;
  const Error none = noneOf(found, options);
  if (options.use == RdmaUse::kRequired) return required(none);
  ports.none_ = none;
  return ports;
}

Error RdmaPorts::required(const Error& reason) {
  return {reason.code, "RDMA is required and cannot be used: " + reason.message +
                           ". Mend that, or set rdma to auto to go on over TCP"};
}

Status RdmaPorts::pin(const std::shared_ptr<RdmaDevice>& port,
                      std::span<const ArenaRegion> regions) {
  for (const ArenaRegion& region : regions) {
    const auto known = region.memory->registrationWith(port);
    if (!known.ok()) return known.error().within(std::string(port->name()));
  }
  return {};
}

std::vector<std::shared_ptr<RdmaDevice>> RdmaPorts::inUse() const {
  std::vector<std::shared_ptr<RdmaDevice>> devices;
  for (const Port& port : ports_)
    if (!port.refusal) devices.push_back(port.device);
  return devices;
}

RdmaPorts::Port& RdmaPorts::portOf(const RdmaDevice& device) {
  return *std::ranges::find_if(ports_,
                               [&](const Port& port) { return port.device.get() == &device; });
}

void RdmaPorts::refuse(const RdmaDevice& port, const Error& reason) {
  std::optional<Error>& refusal = portOf(port).refusal;
  if (!refusal) refusal = reason;
}

void RdmaPorts::notePinned(const RdmaDevice& port) { portOf(port).isPinned = true; }

Status RdmaPorts::usable() const {
  if (none_) return *none_;
  if (ports_.empty() || !inUse().empty()) return {};
  std::vector<std::string> reasons;
  for (const Port& port : ports_) reasons.push_back(port.refusal->message);
  return Error{ports_.front().refusal->code, joined(reasons, "; ")};
}

RdmaStatistics RdmaPorts::statistics() const {
  RdmaStatistics statistics;
  statistics.use = use_;
  statistics.refused = refused_;
  std::vector<std::string> down;
  bool carries = false;
  for (const Port& port : ports_) {
    RdmaStatistics::Port described = describe(*port.device);
    described.used = !port.refusal;
    if (port.refusal) {
      statistics.refused.push_back({described.name, port.refusal->message});
    } else if (!described.active) {
      down.push_back(described.name);
    } else {
      carries = carries || port.isPinned;
    }
    statistics.ports.push_back(std::move(described));
  }
  if (const Status usable = this->usable(); !usable.ok()) {
    statistics.reason = usable.error().message;
  } else if (!ports_.empty() && down.size() == inUse().size()) {
    statistics.reason = joined(down, " and ") + (down.size() == 1 ? " is" : " are") +
                        " down or failed; check the cable and the switch";
  } else if (!ports_.empty() && !carries) {
    statistics.reason = "the memory for chunks is being pinned";
  }
  return statistics;
}

}  // namespace hearth
