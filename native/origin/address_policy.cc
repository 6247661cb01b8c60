#include "origin/address_policy.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace hearth {
namespace {

// Not globally reachable, or not a host at all: IANA's IPv4 and IPv6 Special-Purpose Address
// Registries (RFC 6890 and its updates), and multicast.
constexpr const char* kSpecial[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",    "::/128",
    "::1/128",       "64:ff9b:1::/48",  "100::/64",       "2001::/23",      "2001:db8::/32",
    "fc00::/7",      "fe80::/10",       "fec0::/10",      "ff00::/8"};

bool isPublic(const AddressBytes& address) {
  static const std::vector<Network> special = [] {
    std::vector<Network> networks;
    for (const char* const text : kSpecial) networks.push_back(*Network::parse(text));
    return networks;
  }();
  return std::none_of(special.begin(), special.end(),
                      [&address](const Network& network) { return network.contains(address); });
}

}  // namespace

Result<AddressPolicy> AddressPolicy::publicAnd(const std::vector<std::string>& allowed) {
  AddressPolicy policy;
  policy.restricted_ = true;
  for (const std::string& text : allowed) {
    const auto network = Network::parse(text);
    if (!network) {
      return Error{
          ErrorCode::kInvalidArgument,
          "'" + text + "' is not a network; write it like 10.1.0.0/16, fd00::/8 or 192.0.2.7"};
    }
    policy.allowed_.push_back(*network);
  }
  return policy;
}

bool AddressPolicy::allows(const sockaddr* address) const {
  if (!restricted_) return true;
  AddressBytes bytes{};
  if (address->sa_family == AF_INET) {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(bytes.data() + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  } else {
    return false;
  }
  return allows(bytes);
}

bool AddressPolicy::allowsHost(std::string_view host) const {
  if (!restricted_) return true;
  if (const auto address = addressOfHost(host)) return allows(*address);
  return std::ranges::none_of(host, [](unsigned char c) { return c >= 0x80; });
}

bool AddressPolicy::allows(AddressBytes address) const {
  // An IPv4 address inside: 64:ff9b::/96 (NAT64, RFC 6052), 2002::/16 (6to4, RFC 3056) and ::/96
  // (IPv4-compatible, RFC 4291, but not :: and ::1).
  static const Network nat64 = *Network::parse("64:ff9b::/96");
  static const Network sixToFour = *Network::parse("2002::/16");
  static const Network compatible = *Network::parse("::/96");
  std::optional<std::size_t> inside;
  if (nat64.contains(address) || (compatible.contains(address) && address[12] != 0)) inside = 12;
  if (sixToFour.contains(address)) inside = 2;
  if (inside) {
    AddressBytes four{};
    four[10] = four[11] = 0xff;
    std::memcpy(four.data() + 12, address.data() + *inside, 4);
    address = four;
  }
  const bool listed =
      std::any_of(allowed_.begin(), allowed_.end(),
                  [&address](const Network& network) { return network.contains(address); });
  return listed || isPublic(address);
}

}  // namespace hearth
