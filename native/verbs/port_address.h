// Addresses that two endpoints exchange before they connect, over a connection that has
// authenticated both. The bytes come from another agent: decoding and agreement check every field.
//
//   u8 layout (1), u8 link layer, u16 LID, u32 MTU in bytes, 16 bytes GID, u32 queue pair number,
//   u32 first packet number, u32 receives posted, u32 bytes of a receive
// Pure: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth {

using Gid = std::array<std::uint8_t, 16>;

enum class LinkLayer : std::uint8_t { kInfiniBand = 1, kEthernet = 2 };

enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

// One entry of a port's table of addresses.
struct GidEntry {
  Gid gid{};
  std::uint8_t index = 0;
  GidType type = GidType::kInfiniBand;
  // ::ffff:a.b.c.d, which RoCE v2 routes like the IPv4 address.
  [[nodiscard]] bool isIpv4Mapped() const;
  [[nodiscard]] bool isLinkLocal() const;
};

// The entry that other agents should use: of Ethernet an IPv4-mapped one of RoCE v2, then a routed
// IPv6 one, then a link-local one, then RoCE v1; of InfiniBand the first. Null without entries.
[[nodiscard]] const GidEntry* preferredGid(std::span<const GidEntry> entries);

// "10.0.0.7" for an IPv4-mapped one, else eight groups of hexadecimal digits.
[[nodiscard]] std::string textOf(const Gid& gid);

struct EndpointAddress {
  LinkLayer link = LinkLayer::kEthernet;
  std::uint16_t lid = 0;
  std::uint32_t mtuBytes = 0;  // 256, 512, 1024, 2048 or 4096
  Gid gid{};
  std::uint32_t queuePair = 0;    // 24 bits, not 0
  std::uint32_t firstPacket = 0;  // 24 bits
  std::uint32_t receives = 0;     // that stay posted
  std::uint32_t receiveBytes = 0;
  bool operator==(const EndpointAddress&) const = default;
};

inline constexpr std::size_t kEndpointAddressBytes = 40;
[[nodiscard]] std::vector<std::byte> encode(const EndpointAddress& address);
// kProtocolError: no encoder makes these bytes; the message names the field. kUnsupported: a layout
// of a later release.
[[nodiscard]] Result<EndpointAddress> decodeEndpointAddress(std::span<const std::byte> bytes);

// The MTU of the path between both ports, in bytes: packets of the greater one would not arrive.
// kUnsupported: the ports are of different kinds of link, or an InfiniBand port has no LID.
[[nodiscard]] Result<std::uint32_t> agreedMtu(const EndpointAddress& ours,
                                              const EndpointAddress& theirs);

}  // namespace hearth
