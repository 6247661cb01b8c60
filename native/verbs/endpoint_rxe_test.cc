// Endpoints and windows over libibverbs and a kernel's soft-RoCE devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "verbs/endpoint.h"
#include "verbs/testing/endpoint_pair.h"
#include "verbs/testing/rxe_pair.h"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using testing_verbs::fill;
using testing_verbs::RxePair;

constexpr std::size_t kMega = std::size_t{1} << 20;

bool isZero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(EndpointRxeTest, DescribesThePortsOfTheKernel) {
  RxePair pair;
  EXPECT_EQ(textOf(pair.left.device->gid().gid), "10.77.0.1");
  EXPECT_EQ(textOf(pair.right.device->gid().gid), "10.77.0.2");
  EXPECT_EQ(pair.left.device->gid().type, GidType::kRoceV2);
  EXPECT_EQ(pair.left.device->port().link, LinkLayer::kEthernet);
  EXPECT_EQ(pair.left.device->port().mtuBytes, 1024u);
  EXPECT_TRUE(pair.left.device->limits().hasWindows);
}

TEST(EndpointRxeTest, MovesFourMegabytesIntoAWindow) {
  RxePair pair;
  const auto from = pair.left.memory(4 * kMega);
  const auto into = pair.right.memory(4 * kMega);
  fill(*from, 1);
  const std::uint32_t key = pair.right.openWindow({into, 0, into->size()});
  pair.left.write(MemorySlice{from, 0, from->size()}, into->address(), key, 77);
  pair.right.takeUntil([&pair] { return !pair.right.immediates.empty(); });
  EXPECT_THAT(pair.right.immediates, ElementsAre(77u));
  pair.right.closeWindow();
  EXPECT_TRUE(std::ranges::equal(from->bytes(), into->bytes()));
  pair.left.takeUntil([&pair] { return !pair.left.outcomes.empty(); });
  EXPECT_TRUE(pair.left.outcomes.front().ok()) << pair.left.outcomes.front().error().message;
}

TEST(EndpointRxeTest, MovesPiecesThatLieApartAndAcrossPages) {
  RxePair pair;
  const auto from = pair.left.memory(kMega);
  const auto into = pair.right.memory(kMega);
  fill(*from, 2);
  std::vector<MemorySlice> pieces;
  std::vector<std::byte> expected;
  for (std::uint64_t at = 1, size = 3; at + size < kMega; at += size + 4097, size = size * 5 + 1) {
    pieces.push_back({from, at, size});
    const auto bytes = pieces.back().bytes();
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  const std::uint32_t key = pair.right.openWindow({into, 13, expected.size()});
  pair.left.write(MemoryVector(pieces), into->address() + 13, key, 1);
  pair.right.takeUntil([&pair] { return !pair.right.immediates.empty(); });
  EXPECT_TRUE(std::ranges::equal(expected, into->bytes().subspan(13, expected.size())));
  EXPECT_TRUE(isZero(into->bytes().first(13)));
  EXPECT_TRUE(isZero(into->bytes().subspan(13 + expected.size())));
}

// soft-RoCE compares addresses with the region of a window, not with the window (check_rkey in the
// kernel's rxe_resp.c): endpoint_test.cc has the window's own bounds.
TEST(EndpointRxeTest, RefusesWritesBeyondTheRegionOfAWindow) {
  RxePair pair;
  const auto from = pair.left.memory(8192);
  const auto into = pair.right.memory(8192);
  fill(*from, 3);
  const std::uint32_t key = pair.right.openWindow({into, 0, 8192});
  pair.left.write(MemorySlice{from, 0, 8192}, into->address() + 1, key);
  pair.left.takeUntil([&pair] { return !pair.left.outcomes.empty(); });
  EXPECT_EQ(pair.left.outcomes.front().code(), ErrorCode::kPermissionDenied);
  EXPECT_FALSE(pair.left.endpoint->usable());
  EXPECT_TRUE(isZero(into->bytes()));
}

TEST(EndpointRxeTest, RefusesTheKeyOfAClosedWindow) {
  RxePair pair;
  const auto from = pair.left.memory(8192);
  const auto into = pair.right.memory(8192);
  fill(*from, 4);
  const std::uint32_t key = pair.right.openWindow({into, 0, 8192});
  pair.right.closeWindow();
  pair.left.write(MemorySlice{from, 0, 8192}, into->address(), key);
  pair.left.takeUntil([&pair] { return !pair.left.outcomes.empty(); });
  EXPECT_EQ(pair.left.outcomes.front().code(), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(isZero(into->bytes()));
}

TEST(EndpointRxeTest, AgreesOnTheSmallerMtu) {
  RxePair pair("1500 9000");
  EXPECT_EQ(pair.left.device->port().mtuBytes, 1024u);
  EXPECT_EQ(pair.right.device->port().mtuBytes, 4096u);
  const auto small = pair.left.memory(kMega);
  const auto large = pair.right.memory(kMega);
  fill(*large, 5);
  const std::uint32_t key = pair.left.openWindow({small, 0, kMega});
  // Packets of the greater MTU would not go through the left port.
  pair.right.write(MemorySlice{large, 0, kMega}, small->address(), key, 5);
  pair.left.takeUntil([&pair] { return !pair.left.immediates.empty(); });
  EXPECT_TRUE(std::ranges::equal(small->bytes(), large->bytes()));
}

}  // namespace
}  // namespace hearth
