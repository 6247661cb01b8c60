// RDMA ports and their addresses, as sysfs shows them (ABI/stable/sysfs-class-infiniband), and the
// rows of `hearth doctor rdma` that are made of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "probe/probes.h"
#include "verbs/port_address.h"

namespace hearth {

struct RdmaPort {
  std::string name;    // "mlx5_0/1"
  std::string folder;  // in sysfs
  bool isEthernet = false;
  std::vector<GidEntry> gids;  // those in use

  // The network interface of GID `index`; empty where it has none.
  [[nodiscard]] std::string interfaceOf(const SystemTree& tree, int index) const;
};
[[nodiscard]] std::vector<RdmaPort> rdmaPortsOf(const SystemTree& tree);

// The address from which the kernel sends to `peer`, as a GID. kUnavailable: there is no route.
[[nodiscard]] Result<Gid> sourceTowards(const Gid& peer);
using RouteLookup = std::function<Result<Gid>(const Gid& peer)>;
// `peer`: an IPv4 or IPv6 address of another machine's RDMA port.
[[nodiscard]] std::vector<Probe> probeRdmaRoute(const SystemTree& tree, const std::string& peer,
                                                const RouteLookup& sourceOf = sourceTowards);

}  // namespace hearth
