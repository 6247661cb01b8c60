#include "origin/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace hearth {
namespace {

constexpr unsigned kMappedBits = 96;

AddressBytes mapped(const in_addr& four) {
  AddressBytes bytes{};
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(bytes.data() + 12, &four, sizeof four);
  return bytes;
}

}  // namespace

std::optional<AddressBytes> addressOfHost(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  while (host.ends_with('.')) host.remove_suffix(1);
  const std::string text(host.substr(0, host.find('%')));
  AddressBytes six{};
  if (inet_pton(AF_INET6, text.c_str(), six.data()) == 1) return six;
  if (in_addr four{}; inet_aton(text.c_str(), &four) != 0) return mapped(four);
  return std::nullopt;
}

std::optional<Network> Network::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string host(text.substr(0, slash));
  Network network;
  unsigned width = 128;
  unsigned before = 0;
  if (in_addr four{}; inet_pton(AF_INET, host.c_str(), &four) == 1) {
    network.address = mapped(four);
    width = 32;
    before = kMappedBits;
  } else if (inet_pton(AF_INET6, host.c_str(), network.address.data()) != 1) {
    return std::nullopt;
  }
  network.bits = before + width;
  if (slash == text.npos) return network;
  const std::string_view length = text.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bits);
  if (error != std::errc() || end != length.data() + length.size() || bits > width) {
    return std::nullopt;
  }
  network.bits = before + bits;
  return network;
}

bool Network::contains(const AddressBytes& other) const {
  const std::size_t whole = bits / 8;
  if (!std::equal(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(whole),
                  other.begin())) {
    return false;
  }
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff00 >> (bits % 8));
  return ((address[whole] ^ other[whole]) & mask) == 0;
}

}  // namespace hearth
