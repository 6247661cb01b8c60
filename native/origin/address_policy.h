// Which addresses an origin may have. A tenant chooses URLs, so a name or a redirect could lead to
// the node's own services or the cloud's metadata service. Immutable: any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "origin/network.h"

namespace hearth {

class AddressPolicy {
 public:
  // Allows everything.
  AddressPolicy() = default;
  // Allows public addresses and `allowed` ("10.1.0.0/16", "fd00::1/128", a plain address).
  // kInvalidArgument naming the network that cannot be read.
  [[nodiscard]] static Result<AddressPolicy> publicAnd(const std::vector<std::string>& allowed);

  [[nodiscard]] bool allowsEverything() const { return !restricted_; }
  // IPv4 and IPv6. IPv4 addresses inside IPv6 (mapped, NAT64, 6to4) are judged as what they lead
  // to.
  [[nodiscard]] bool allows(const sockaddr* address) const;
  // Of a URL's host that an address is written in, in any spelling; names are allowed when they are
  // ASCII, as libcurl and proxies read digits of other scripts as digits. For requests through a
  // proxy, which looks names up itself.
  [[nodiscard]] bool allowsHost(std::string_view host) const;

 private:
  // IPv4 addresses inside IPv6 are judged as these.
  [[nodiscard]] bool allows(AddressBytes address) const;

  bool restricted_ = false;
  std::vector<Network> allowed_;
};

}  // namespace hearth
