// Which addresses an origin may have. A tenant chooses URLs, so a name or a redirect could lead to
// the node's own services or the cloud's metadata service. Immutable: any thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

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

 private:
  // IPv4 as ::ffff:0:0/96.
  using Address = std::array<std::uint8_t, 16>;
  struct Network {
    Address address{};
    unsigned bits = 0;
    [[nodiscard]] bool contains(const Address& other) const;
  };

  static Result<Network> parse(std::string_view text);
  [[nodiscard]] static bool isPublic(const Address& address);

  bool restricted_ = false;
  std::vector<Network> allowed_;
};

}  // namespace hearth
