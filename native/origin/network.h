// Ranges of IP addresses. IPv4 is held as the IPv6 range ::ffff:0:0/96. Pure. Private to this room.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth {

using AddressBytes = std::array<std::uint8_t, 16>;

// The address that a URL's host is, in any spelling that a system's resolver takes for one:
// "192.0.2.1", "192.0.513", "0xc0000201", "fd00::1", "[fe80::1%25eth0]". None of a name.
[[nodiscard]] std::optional<AddressBytes> addressOfHost(std::string_view host);

struct Network {
  AddressBytes address{};
  unsigned bits = 0;

  // "10.1.0.0/16", "fd00::/8" or a plain address.
  [[nodiscard]] static std::optional<Network> parse(std::string_view text);
  [[nodiscard]] bool contains(const AddressBytes& other) const;
};

}  // namespace hearth
