#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace hearth {
namespace {

std::vector<std::byte> randomBytes(std::size_t size) {
  std::mt19937 generator(7);
  std::vector<std::byte> data(size);
  for (auto& byte : data) byte = static_cast<std::byte>(generator());
  return data;
}

std::uint32_t bitByBit(std::span<const std::byte> data) {
  std::uint32_t state = ~0u;
  for (const std::byte byte : data) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int i = 0; i < 8; ++i) state = (state >> 1) ^ ((state & 1) ? 0x82F63B78u : 0);
  }
  return ~state;
}

// RFC 3720 appendix B.4.
TEST(Crc32c, MatchesPublishedVectors) {
  EXPECT_EQ(crc32c(std::as_bytes(std::span("123456789", 9))), 0xE3069283u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43u);
}

TEST(Crc32c, AgreesWithTheDefinitionAtEveryLengthAndAlignment) {
  const auto data = randomBytes(3 * 3072 + 64);
  for (std::size_t size : {0ul, 1ul, 7ul, 8ul, 9ul, 3071ul, 3072ul, 3073ul, 6144ul, 9216ul + 13}) {
    for (std::size_t offset : {0ul, 1ul, 5ul}) {
      const auto part = std::span(data).subspan(offset, size);
      EXPECT_EQ(crc32c(part), bitByBit(part)) << size << " at " << offset;
    }
  }
}

TEST(Crc32c, ContinuesAndCombines) {
  const auto data = randomBytes(200'000);
  const std::uint32_t whole = crc32c(data);
  for (std::size_t cut : {0ul, 1ul, 65'536ul, 131'072ul, 199'999ul, 200'000ul}) {
    const auto head = std::span(data).first(cut);
    const auto tail = std::span(data).subspan(cut);
    EXPECT_EQ(crc32c(tail, crc32c(head)), whole);
    EXPECT_EQ(crc32cCombine(crc32c(head), crc32c(tail), tail.size()), whole);
  }
}

TEST(Crc32c, OfBlocksIsThatOfEach) {
  std::vector<std::byte> data(10, std::byte{7});
  const std::span<const std::byte> all(data);
  EXPECT_EQ(crc32cOfBlocks(all, 4),
            (std::vector<std::uint32_t>{crc32c(all.first(4)), crc32c(all.subspan(4, 4)),
                                        crc32c(all.last(2))}));
  EXPECT_TRUE(crc32cOfBlocks({}, 4).empty());
}

}  // namespace
}  // namespace hearth
