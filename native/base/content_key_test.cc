#include "base/content_key.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ContentKey, RoundTripsThroughHex) {
  ContentKey key;
  for (std::size_t i = 0; i < 32; ++i) key.bytes[i] = static_cast<std::uint8_t>(i * 8 + 1);
  EXPECT_EQ(ContentKey::parse(key.hex()), key);
  EXPECT_EQ(key.hex().substr(0, 4), "0109");
}

TEST(ContentKey, RefusesAnythingElse) {
  EXPECT_FALSE(ContentKey::parse(""));
  EXPECT_FALSE(ContentKey::parse(std::string(63, 'a')));
  EXPECT_FALSE(ContentKey::parse(std::string(63, 'a') + "g"));
}

TEST(ContentKey, PrefixIsLittleEndian) {
  ContentKey key;
  key.bytes[0] = 1;
  key.bytes[7] = 2;
  EXPECT_EQ(key.prefix(), 0x0200000000000001ull);
}

}  // namespace
}  // namespace hearth
