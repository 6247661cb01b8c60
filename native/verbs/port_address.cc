#include "verbs/port_address.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "base/byte_codec.h"

namespace hearth {
namespace {

constexpr std::uint8_t kLayout = 1;
constexpr std::uint32_t kMaxNumber = 0xffffff;

bool isMtu(std::uint32_t bytes) {
  return bytes >= 256 && bytes <= 4096 && (bytes & (bytes - 1)) == 0;
}

Error malformed(const char* field) {
  return {ErrorCode::kProtocolError,
          std::string("the other side's RDMA endpoint has an impossible ") + field};
}

}  // namespace

bool GidEntry::isIpv4Mapped() const {
  return std::all_of(gid.begin(), gid.begin() + 10, [](auto byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

bool GidEntry::isLinkLocal() const { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

const GidEntry* preferredGid(std::span<const GidEntry> entries) {
  const auto rank = [](const GidEntry& entry) {
    return std::tuple(entry.type == GidType::kRoceV1, !entry.isIpv4Mapped(), entry.isLinkLocal(),
                      entry.index);
  };
  const auto best = std::ranges::min_element(
      entries, [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return best == entries.end() ? nullptr : &*best;
}

std::string textOf(const Gid& gid) {
  char text[48];
  if (GidEntry{gid}.isIpv4Mapped()) {
    std::snprintf(text, sizeof(text), "%u.%u.%u.%u", gid[12], gid[13], gid[14], gid[15]);
    return text;
  }
  std::string groups;
  for (std::size_t at = 0; at < gid.size(); at += 2) {
    std::snprintf(text, sizeof(text), "%s%02x%02x", at == 0 ? "" : ":", gid[at], gid[at + 1]);
    groups += text;
  }
  return groups;
}

std::vector<std::byte> encode(const EndpointAddress& address) {
  ByteWriter out;
  out.u8(kLayout);
  out.u8(static_cast<std::uint8_t>(address.link));
  out.u16(address.lid);
  out.u32(address.mtuBytes);
  out.bytes(std::as_bytes(std::span(address.gid)));
  out.u32(address.queuePair);
  out.u32(address.firstPacket);
  out.u32(address.receives);
  out.u32(address.receiveBytes);
  return out.take();
}

Result<EndpointAddress> decodeEndpointAddress(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.u8() != kLayout)
    return Error{ErrorCode::kUnsupported, "the other side's RDMA endpoint is of a later release"};
  EndpointAddress address;
  const std::uint8_t link = in.u8();
  address.link = static_cast<LinkLayer>(link);
  address.lid = in.u16();
  address.mtuBytes = in.u32();
  address.gid = in.fixed<16>();
  address.queuePair = in.u32();
  address.firstPacket = in.u32();
  address.receives = in.u32();
  address.receiveBytes = in.u32();
  if (!in.finished()) return malformed("length");
  if (link != 1 && link != 2) return malformed("link layer");
  if (!isMtu(address.mtuBytes)) return malformed("MTU");
  if (address.queuePair == 0 || address.queuePair > kMaxNumber)
    return malformed("queue pair number");
  if (address.firstPacket > kMaxNumber) return malformed("packet number");
  const bool noGid = std::ranges::all_of(address.gid, [](auto byte) { return byte == 0; });
  if (address.link == LinkLayer::kEthernet && noGid) return malformed("GID");
  return address;
}

Result<std::uint32_t> agreedMtu(const EndpointAddress& ours, const EndpointAddress& theirs) {
  if (ours.link != theirs.link) {
    return Error{ErrorCode::kUnsupported,
                 "one RDMA port is InfiniBand and the other one is Ethernet"};
  }
  if (ours.link == LinkLayer::kInfiniBand && (ours.lid == 0 || theirs.lid == 0)) {
    return Error{ErrorCode::kUnsupported,
                 "an InfiniBand port has no LID; check the subnet manager"};
  }
  return std::min(ours.mtuBytes, theirs.mtuBytes);
}

}  // namespace hearth
