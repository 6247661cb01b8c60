#include "verbs/port_address.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

EndpointAddress example() {
  EndpointAddress address;
  address.mtuBytes = 4096;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  address.queuePair = 17;
  address.firstPacket = 0xabcdef;
  address.receives = 64;
  address.receiveBytes = 4096;
  return address;
}

TEST(PortAddressTest, GoesThroughItsEncoding) {
  const auto bytes = encode(example());
  EXPECT_EQ(bytes.size(), kEndpointAddressBytes);
  const auto decoded = decodeEndpointAddress(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, example());
}

TEST(PortAddressTest, RefusesWhatNoEncoderMakes) {
  const auto refused = [](auto change) {
    EndpointAddress address = example();
    change(address);
    return decodeEndpointAddress(encode(address)).code();
  };
  EXPECT_EQ(refused([](auto& of) { of.mtuBytes = 1500; }), ErrorCode::kProtocolError);
  EXPECT_EQ(refused([](auto& of) { of.queuePair = 0; }), ErrorCode::kProtocolError);
  EXPECT_EQ(refused([](auto& of) { of.queuePair = 1u << 24; }), ErrorCode::kProtocolError);
  EXPECT_EQ(refused([](auto& of) { of.firstPacket = 1u << 24; }), ErrorCode::kProtocolError);
  EXPECT_EQ(refused([](auto& of) { of.gid = {}; }), ErrorCode::kProtocolError);
  EXPECT_EQ(refused([](auto& of) { of.link = LinkLayer{3}; }), ErrorCode::kProtocolError);
  auto bytes = encode(example());
  bytes.pop_back();
  EXPECT_EQ(decodeEndpointAddress(bytes).code(), ErrorCode::kProtocolError);
  bytes[0] = std::byte{2};
  EXPECT_EQ(decodeEndpointAddress(bytes).code(), ErrorCode::kUnsupported);
}

TEST(PortAddressTest, AgreesOnTheSmallerMtu) {
  EndpointAddress other = example();
  other.mtuBytes = 1024;
  EXPECT_EQ(*agreedMtu(example(), other), 1024u);
  EXPECT_EQ(*agreedMtu(other, example()), 1024u);
}

TEST(PortAddressTest, LinksOfTwoKindsDoNotMeet) {
  EndpointAddress other = example();
  other.link = LinkLayer::kInfiniBand;
  EXPECT_EQ(agreedMtu(example(), other).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(agreedMtu(other, other).code(), ErrorCode::kUnsupported) << "without LIDs";
}

TEST(PortAddressTest, PrefersRoutedAddressesOfTheNewerRoce) {
  const Gid mapped = example().gid;
  const Gid local = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const Gid routed = {0x20, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  std::vector<GidEntry> entries{{mapped, 0, GidType::kRoceV1},
                                {local, 1, GidType::kRoceV2},
                                {routed, 2, GidType::kRoceV2},
                                {mapped, 3, GidType::kRoceV2}};
  for (const std::uint8_t expected : {3, 2, 1, 0}) {
    const GidEntry* const best = preferredGid(entries);
    ASSERT_NE(best, nullptr);
    EXPECT_EQ(best->index, expected);
    std::erase_if(entries, [&](const GidEntry& entry) { return entry.index == expected; });
  }
  EXPECT_EQ(preferredGid(entries), nullptr);
  EXPECT_EQ(textOf(mapped), "10.0.0.1");
  EXPECT_EQ(textOf(local), "fe80:0000:0000:0000:0000:0000:0000:0001");
}

}  // namespace
}  // namespace hearth
