#include "origin/address_policy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace hearth {
namespace {

constexpr unsigned kMappedBits = 96;

// Not globally reachable, or not a host at all: IANA's IPv4 and IPv6 Special-Purpose Address
// Registries (RFC 6890 and its updates), and multicast.
constexpr const char* kSpecial[] = {
    "0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",    "::/128",
    "::1/128",       "64:ff9b:1::/48",  "100::/64",       "2001::/23",      "2001:db8::/32",
    "fc00::/7",      "fe80::/10",       "fec0::/10",      "ff00::/8"};

}  // namespace

bool AddressPolicy::Network::contains(const Address& other) const {
  const std::size_t whole = bits / 8;
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.begin())) {
    return false;
  }
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff00 >> (bits % 8));
  return ((address[whole] ^ other[whole]) & mask) == 0;
}

Result<AddressPolicy::Network> AddressPolicy::parse(std::string_view text) {
  const Error malformed{ErrorCode::kInvalidArgument,
                        "'" + std::string(text) +
                            "' is not a network; write it like 10.1.0.0/16, fd00::/8 or 192.0.2.7"};
  const std::size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  Network network;
  unsigned width = 128;
  unsigned before = 0;
  if (in_addr four{}; inet_pton(AF_INET, host.c_str(), &four) == 1) {
    network.address[10] = network.address[11] = 0xff;
    std::memcpy(network.address.data() + 12, &four, sizeof four);
    width = 32;
    before = kMappedBits;
  } else if (inet_pton(AF_INET6, host.c_str(), network.address.data()) != 1) {
    return malformed;
  }
  network.bits = before + width;
  if (slash != text.npos) {
    const std::string_view length = text.substr(slash + 1);
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
    if (error != std::errc() || end != length.data() + length.size() || bits > width)
      return malformed;
    network.bits = before + bits;
  }
  return network;
}

Result<AddressPolicy> AddressPolicy::publicAnd(const std::vector<std::string>& allowed) {
  AddressPolicy policy;
  policy.restricted_ = true;
  for (const std::string& text : allowed) {
    const auto network = parse(text);
    if (!network.ok()) return network.error();
    policy.allowed_.push_back(*network);
  }
  return policy;
}

bool AddressPolicy::isPublic(const Address& address) {
  static const std::vector<Network> special = [] {
    std::vector<Network> networks;
    for (const char* const text : kSpecial) networks.push_back(*parse(text));
    return networks;
  }();
  return std::none_of(special.begin(), special.end(),
                      [&address](const Network& network) { return network.contains(address); });
}

bool AddressPolicy::allows(const sockaddr* address) const {
  if (!restricted_) return true;
  Address bytes{};
  bytes[10] = bytes[11] = 0xff;
  if (address->sa_family == AF_INET) {
    std::memcpy(bytes.data() + 12, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    Address six;
    std::memcpy(six.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    // An IPv4 address inside: 64:ff9b::/96 (NAT64, RFC 6052), 2002::/16 (6to4, RFC 3056) and ::/96
    // (IPv4-compatible, RFC 4291, but not :: and ::1).
    static const Network nat64 = *parse("64:ff9b::/96");
    static const Network sixToFour = *parse("2002::/16");
    static const Network compatible = *parse("::/96");
    if (nat64.contains(six) || (compatible.contains(six) && six[12] != 0)) {
      std::copy(six.begin() + 12, six.end(), bytes.begin() + 12);
    } else if (sixToFour.contains(six)) {
      std::copy(six.begin() + 2, six.begin() + 6, bytes.begin() + 12);
    } else {
      bytes = six;
    }
  } else {
    return false;
  }
  const bool listed =
      std::any_of(allowed_.begin(), allowed_.end(),
                  [&bytes](const Network& network) { return network.contains(bytes); });
  return listed || isPublic(bytes);
}

}  // namespace hearth
