#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cerrno>
#include <map>
#include <memory>

#include "base/result.h"
#include "probe/probes.h"

namespace hearth {
namespace {

// From here on small frames cost a noticeable part of the line rate.
constexpr std::int64_t kFastMbps = 25000;
constexpr std::int64_t kJumboMtu = 4096;

std::string addressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) return "";
    inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
  }
  return text;
}

Probe describe(const SystemTree& tree, const std::string& name, const std::string& addresses) {
  const std::string base = "/sys/class/net/" + name;
  const auto mtu = tree.number(base + "/mtu");
  const auto speed = tree.number(base + "/speed");  // Mb/s; -1 when the driver does not know
  const bool fast = speed.value_or(0) >= kFastMbps;
  Probe probe{"nic " + name, ProbeStatus::kOk, addresses, ""};
  if (speed.value_or(0) <= 0) {
    probe.detail += ", speed unknown";
  } else if (*speed >= 1000) {
    probe.detail += ", " + std::to_string(*speed / 1000) + " Gb/s";
  } else {
    probe.detail += ", " + std::to_string(*speed) + " Mb/s";
  }
  probe.detail += ", MTU " + (mtu ? std::to_string(*mtu) : std::string("unknown"));
  if (const auto node = tree.number(base + "/device/numa_node"); node && *node >= 0) {
    probe.detail += ", NUMA node " + std::to_string(*node);
  }
  if (fast && mtu && *mtu < kJumboMtu) {
    probe.status = ProbeStatus::kDegraded;
    probe.advice = "Set MTU 9000 on this interface, its peers and the switches between.";
  }
  return probe;
}

}  // namespace

std::vector<Probe> probeNetwork(const SystemTree& tree) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {{"network", ProbeStatus::kMissing, errnoError(errno, "getifaddrs").message,
             "Allow netlink sockets in the seccomp profile."}};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::map<std::string, std::string> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool serves = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (entry->ifa_addr == nullptr || !serves) continue;
    const std::string text = addressText(entry->ifa_addr);
    if (text.empty()) continue;
    std::string& all = addresses[entry->ifa_name];
    all += (all.empty() ? "" : " ") + text;
  }
  std::vector<Probe> probes;
  for (const auto& [name, all] : addresses) probes.push_back(describe(tree, name, all));
  if (probes.empty()) {
    probes.push_back(
        {"network", ProbeStatus::kDegraded, "no interface but loopback has an address",
         "Agents on other machines cannot be reached: configure a network interface."});
  }
  return probes;
}

}  // namespace hearth
