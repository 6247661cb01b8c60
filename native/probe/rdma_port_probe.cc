// Addresses, packets and device files of RDMA ports.
#include <cstdlib>
#include <cstring>

#include "probe/rdma_gids.h"

namespace hearth {
namespace {

constexpr const char* kDevices = "/sys/class/infiniband/";
constexpr std::size_t kShownGids = 8;
constexpr std::int64_t kLargestPacket = 4096;
// Headers around the bytes of a packet of RoCE at most; iboe_get_mtu() of the kernel.
constexpr std::int64_t kPacketHeaders = 96;

// Of "fe80:0000:0000:0000:0202:c9ff:fe00:0001"; nothing for an entry that is not in use.
std::optional<Gid> gidOf(const std::string& text) {
  Gid gid{};
  std::size_t at = 0;
  bool isUsed = false;
  for (const char digit : text) {
    if (digit == ':') continue;
    const char* const digits = "0123456789abcdef";
    const char* const found = std::strchr(digits, digit);
    if (digit == '\0' || found == nullptr || at == 2 * gid.size()) return std::nullopt;
    gid[at / 2] = static_cast<std::uint8_t>((gid[at / 2] << 4) | (found - digits));
    isUsed = isUsed || digit != '0';
    ++at;
  }
  if (!isUsed || at != 2 * gid.size()) return std::nullopt;
  return gid;
}

std::vector<GidEntry> gidsOf(const SystemTree& tree, const RdmaPort& port) {
  std::vector<GidEntry> gids;
  for (int index = 0; index < 256; ++index) {
    const std::string number = std::to_string(index);
    const auto text = tree.text(port.folder + "/gids/" + number);
    if (!text) break;
    const std::optional<Gid> gid = gidOf(*text);
    if (!gid) continue;
    const bool isV2 = tree.text(port.folder + "/gid_attrs/types/" + number) == "RoCE v2";
    const GidType roce = isV2 ? GidType::kRoceV2 : GidType::kRoceV1;
    gids.push_back({.gid = *gid,
                    .index = static_cast<std::uint8_t>(index),
                    .type = port.isEthernet ? roce : GidType::kInfiniBand});
  }
  return gids;
}

std::string textOf(const SystemTree& tree, const RdmaPort& port, const GidEntry& entry) {
  std::string text = std::to_string(entry.index) + " " + hearth::textOf(entry.gid);
  if (entry.type == GidType::kInfiniBand) return text;
  text += entry.type == GidType::kRoceV2 ? " (RoCE v2" : " (RoCE v1";
  const std::string interface = port.interfaceOf(tree, entry.index);
  return text + (interface.empty() ? ")" : ", " + interface + ")");
}

Probe gidRow(const SystemTree& tree, const RdmaPort& port) {
  Probe row{"gid " + port.name, ProbeStatus::kOk, "", ""};
  const GidEntry* const best = preferredGid(port.gids);
  if (best == nullptr) {
    return {row.name, ProbeStatus::kMissing, "the port has no GID",
            port.isEthernet ? "Give its network interface an IP address, and set the interface up."
                            : "Start a subnet manager: `opensm`, or the one of the switch."};
  }
  row.detail = textOf(tree, port, *best);
  std::size_t shown = 1;
  for (const GidEntry& entry : port.gids) {
    if (entry.index == best->index) continue;
    if (shown == 1) row.detail += " is used; others: ";
    if (shown == kShownGids) {
      row.detail += ", and " + std::to_string(port.gids.size() - kShownGids) + " more";
      break;
    }
    row.detail += (shown++ == 1 ? "" : ", ") + textOf(tree, port, entry);
  }
  if (!port.isEthernet) {
    const std::string lid = tree.text(port.folder + "/lid").value_or("0x0");
    row.detail += "; LID " + lid;
    if (std::strtoul(lid.c_str(), nullptr, 16) == 0) {
      row.status = ProbeStatus::kMissing;
      row.advice = "No subnet manager has given the port a LID: start `opensm`, or the switch's.";
    }
  } else if (best->type != GidType::kRoceV2) {
    row.status = ProbeStatus::kDegraded;
    row.advice = "RoCE v1 passes no router, and many switches drop it. Enable RoCE v2 of the card.";
  } else if (best->isLinkLocal()) {
    row.status = ProbeStatus::kDegraded;
    row.advice =
        "A link-local GID reaches the same network segment only. Give the interface an IPv4 "
        "address.";
  }
  return row;
}

std::int64_t packetOf(std::int64_t mtu) {
  std::int64_t packet = kLargestPacket;
  while (packet > 256 && packet > mtu - kPacketHeaders) packet /= 2;
  return packet;
}

// Of RoCE. A subnet manager chooses the packets of InfiniBand, and sysfs does not tell them.
void addPacketRow(const SystemTree& tree, const RdmaPort& port, std::vector<Probe>& rows) {
  if (!port.isEthernet || port.gids.empty()) return;
  const std::string interface = port.interfaceOf(tree, port.gids.front().index);
  const auto mtu = tree.number("/sys/class/net/" + interface + "/mtu");
  if (interface.empty() || !mtu) return;
  const std::int64_t packet = packetOf(*mtu);
  Probe row{
      "packets " + port.name, ProbeStatus::kOk,
      std::to_string(packet) + " bytes, by the MTU " + std::to_string(*mtu) + " of " + interface,
      ""};
  if (packet < kLargestPacket) {
    row.status = ProbeStatus::kDegraded;
    row.advice = "Packets of 4096 bytes cost less: set MTU 9000 (at least 4192) on " + interface +
                 ", on the peers' interfaces and on the switches between.";
  }
  rows.push_back(std::move(row));
}

}  // namespace

std::string RdmaPort::interfaceOf(const SystemTree& tree, int index) const {
  return tree.text(folder + "/gid_attrs/ndevs/" + std::to_string(index)).value_or("");
}

std::vector<RdmaPort> rdmaPortsOf(const SystemTree& tree) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : tree.names(kDevices)) {
    for (const std::string& number : tree.names(kDevices + device + "/ports")) {
      RdmaPort port{.name = device + "/" + number,
                    .folder = kDevices + device + "/ports/" + number};
      port.isEthernet = tree.text(port.folder + "/link_layer") == "Ethernet";
      port.gids = gidsOf(tree, port);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::vector<Probe> probeRdmaPorts(const SystemTree& tree) {
  std::vector<Probe> rows;
  for (const RdmaPort& port : rdmaPortsOf(tree)) {
    rows.push_back(gidRow(tree, port));
    addPacketRow(tree, port, rows);
  }
  return rows;
}

std::vector<Probe> probeRdmaFiles(const SystemTree& tree) {
  const std::vector<std::string> devices = tree.names(kDevices);
  if (devices.empty()) return {};
  const std::string verbs = "/sys/class/infiniband_verbs/";
  Probe row{"device files", ProbeStatus::kOk, "", ""};
  std::size_t known = 0, usable = 0;
  for (const std::string& file : tree.names(verbs)) {
    const auto device = tree.text(verbs + file + "/ibdev");
    if (!device) continue;  // "abi_version" lies there, too
    ++known;
    const std::string path = "/dev/infiniband/" + file;
    const bool isThere = tree.exists(path), isOpen = tree.writable(path);
    usable += isOpen ? 1 : 0;
    row.detail += (row.detail.empty() ? "" : ", ") + path + " of " + *device;
    if (!isOpen) row.detail += isThere ? " may not be opened" : " is not there";
  }
  if (known == 0) {
    return {{row.name, ProbeStatus::kMissing, "the kernel offers no device to programs",
             "Load the module: `modprobe ib_uverbs`."}};
  }
  if (usable == known) return {row};
  row.status = usable == 0 ? ProbeStatus::kMissing : ProbeStatus::kDegraded;
  row.advice =
      "Let this user read and write them. In a container mount /dev/infiniband and allow its "
      "devices, or ask for the device plug-in's resource.";
  return {row};
}

}  // namespace hearth
