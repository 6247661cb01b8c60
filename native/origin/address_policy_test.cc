#include "origin/address_policy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

bool allows(const AddressPolicy& policy, const char* text) {
  sockaddr_storage storage{};
  auto* const four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
  } else {
    EXPECT_EQ(inet_pton(AF_INET6, text, &six->sin6_addr), 1) << text;
    six->sin6_family = AF_INET6;
  }
  return policy.allows(reinterpret_cast<const sockaddr*>(&storage));
}

TEST(AddressPolicy, JudgesTheHostsOfUrlsAsTheyAreWritten) {
  const auto policy = AddressPolicy::publicAnd({"10.1.0.0/16"});
  ASSERT_TRUE(policy.ok());
  for (const char* const host : {"example.com", "192.0.3.1", "10.1.2.3", "[2600::1]"})
    EXPECT_TRUE(policy->allowsHost(host)) << host;
  for (const char* const host : {"10.2.0.1", "0xa020001", "127.1", "[::1]", "[::ffff:10.2.0.1]",
                                 "\uff11\uff10.2.0.1", "b\u00fccher.example"})
    EXPECT_FALSE(policy->allowsHost(host)) << host;
  EXPECT_TRUE(AddressPolicy().allowsHost("127.0.0.1"));
}

TEST(AddressPolicy, AllowsEverythingByDefault) {
  EXPECT_TRUE(allows(AddressPolicy(), "127.0.0.1"));
  EXPECT_TRUE(allows(AddressPolicy(), "fe80::1"));
}

TEST(AddressPolicy, RefusesWhatIsNotPublic) {
  const auto policy = AddressPolicy::publicAnd({});
  ASSERT_TRUE(policy.ok());
  for (const char* const text : {"127.0.0.1",
                                 "127.255.0.9",
                                 "10.0.0.1",
                                 "172.16.0.1",
                                 "172.31.255.255",
                                 "192.168.1.1",
                                 "169.254.169.254",
                                 "100.64.0.1",
                                 "0.0.0.0",
                                 "224.0.0.1",
                                 "255.255.255.255",
                                 "::",
                                 "::1",
                                 "fe80::1",
                                 "fc00::1",
                                 "fd12::1",
                                 "ff02::1",
                                 "::ffff:127.0.0.1",
                                 "::ffff:10.1.2.3",
                                 "::127.0.0.1",
                                 "64:ff9b::a00:1",
                                 "2002:7f00:1::",
                                 "2001:db8::1"}) {
    EXPECT_FALSE(allows(*policy, text)) << text;
  }
  for (const char* const text : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111",
                                 "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"}) {
    EXPECT_TRUE(allows(*policy, text)) << text;
  }
}

TEST(AddressPolicy, AllowsListedNetworks) {
  const auto policy =
      AddressPolicy::publicAnd({"10.1.0.0/16", "192.168.7.9", "fd00:1::/33", "127.0.0.0/9"});
  ASSERT_TRUE(policy.ok());
  for (const char* const text :
       {"10.1.255.1", "192.168.7.9", "fd00:1:7fff::1", "::ffff:10.1.2.3", "127.127.0.1"}) {
    EXPECT_TRUE(allows(*policy, text)) << text;
  }
  for (const char* const text : {"10.2.0.1", "192.168.7.8", "fd00:1:8000::1", "127.128.0.1"}) {
    EXPECT_FALSE(allows(*policy, text)) << text;
  }
}

TEST(AddressPolicy, NamesNetworksThatItCannotRead) {
  for (const char* const text :
       {"", "10.0.0.0/33", "fd00::/129", "10.0/8", "host", "10.0.0.0/", "10.0.0.0/8x"}) {
    const auto policy = AddressPolicy::publicAnd({text});
    EXPECT_EQ(policy.code(), ErrorCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace hearth
