#include "origin/network.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Network, ReadsEverySpellingOfAnAddress) {
  const auto loopback = addressOfHost("127.0.0.1");
  ASSERT_TRUE(loopback);
  for (const char* const text : {"127.1", "0x7f000001", "2130706433", "0177.0.0.1", "127.0.0.1.",
                                 "[::ffff:127.0.0.1]", "::ffff:7f00:1"}) {
    EXPECT_EQ(addressOfHost(text), loopback) << text;
  }
  EXPECT_EQ(addressOfHost("[fe80::1%25eth0]"), addressOfHost("fe80::1"));
  for (const char* const text : {"", "localhost", "example.com", "1.2.3.4.5", "::g", "10.0.0.0/8"})
    EXPECT_FALSE(addressOfHost(text)) << text;
}

TEST(Network, ContainsWhatItsBitsSay) {
  const auto network = Network::parse("10.1.0.0/20");
  ASSERT_TRUE(network);
  EXPECT_TRUE(network->contains(*addressOfHost("10.1.15.255")));
  EXPECT_FALSE(network->contains(*addressOfHost("10.1.16.0")));
  EXPECT_FALSE(network->contains(*addressOfHost("::a01:0")));
  EXPECT_TRUE(Network::parse("fd00::1")->contains(*addressOfHost("fd00::1")));
  for (const char* const text : {"", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "a/8"})
    EXPECT_FALSE(Network::parse(text)) << text;
}

}  // namespace
}  // namespace hearth
