// Looks whether packets for another agent's RDMA port leave by a port of this machine.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "probe/rdma_gids.h"

namespace hearth {
namespace {

constexpr std::uint16_t kRocePort = 4791;  // RoCE v2's, of UDP

std::optional<Gid> gidOfAddress(const std::string& address) {
  Gid gid{};
  if (inet_pton(AF_INET, address.c_str(), gid.data() + 12) == 1) {
    gid[10] = gid[11] = 0xff;
    return gid;
  }
  if (inet_pton(AF_INET6, address.c_str(), gid.data()) == 1) return gid;
  return std::nullopt;
}

struct Descriptor {
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  const int number;
};

}  // namespace

Result<Gid> sourceTowards(const Gid& peer) {
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kRocePort);
  std::memcpy(&to.sin6_addr, peer.data(), peer.size());
  // An IPv4 address stands there as ::ffff:a.b.c.d, which is its GID, too.
  const Descriptor asking{::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_in6 from{};
  socklen_t size = sizeof(from);
  if (asking.number < 0 || ::connect(asking.number, reinterpret_cast<sockaddr*>(&to), sizeof(to)) ||
      ::getsockname(asking.number, reinterpret_cast<sockaddr*>(&from), &size) != 0) {
    return Error{ErrorCode::kUnavailable, std::strerror(errno)};
  }
  Gid source{};
  std::memcpy(source.data(), &from.sin6_addr, source.size());
  return source;
}

std::vector<Probe> probeRdmaRoute(const SystemTree& tree, const std::string& peer,
                                  const RouteLookup& sourceOf) {
  Probe row{"route " + peer, ProbeStatus::kMissing, "", ""};
  const std::optional<Gid> theirs = gidOfAddress(peer);
  if (!theirs) {
    row.detail = "not an address";
    row.advice = "Name the peer's RDMA port by its IPv4 or IPv6 address; `hearth status` has it.";
    return {row};
  }
  const std::vector<RdmaPort> ports = rdmaPortsOf(tree);
  const Result<Gid> source = sourceOf(*theirs);
  std::string ours;
  for (const RdmaPort& port : ports) {
    for (const GidEntry& entry : port.gids) {
      if (source.ok() && entry.gid == *source) {
        row.status = ProbeStatus::kOk;
        row.detail =
            "from " + textOf(*source) + ", GID " + std::to_string(entry.index) + " of " + port.name;
        return {row};
      }
    }
    const GidEntry* const best = preferredGid(port.gids);
    if (!ours.empty() || best == nullptr || !port.isEthernet) continue;
    ours = "`ip route add " + peer + " dev " + port.interfaceOf(tree, best->index) + " src " +
           textOf(best->gid) + "`";
  }
  row.advice = ours.empty() ? "No RDMA port here has an address: see the rows about GIDs."
                            : "RoCE leaves by the route of its port's own address: " + ours +
                                  ", or give both ports addresses of one network.";
  if (!source.ok()) {
    row.detail = "no route: " + source.error().message;
    return {row};
  }
  row.status = ProbeStatus::kDegraded;
  row.detail = "from " + textOf(*source) + ", which is the address of no RDMA port";
  return {row};
}

}  // namespace hearth
