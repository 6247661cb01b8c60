#include "wire/capability.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

std::vector<std::byte> bytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const std::vector<std::byte> kSecret = bytesOf("a secret of the cluster");
const std::vector<std::byte> kHelloBytes = bytesOf("hello"), kChallengeBytes = bytesOf("challenge");

Capability capability() {
  return {.cluster = "test",
          .node = "node",
          .expiresAtMs = std::uint64_t{1} << 62,
          .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
          .datasets = {"one", "two"}};
}

TEST(Capability, IsTheSameWhenDecoded) {
  const auto claims = encodeCapability(capability());
  ASSERT_TRUE(claims.ok());
  const auto decoded = decodeCapability(*claims);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, capability());
  for (std::size_t size = 0; size < claims->size(); ++size)
    EXPECT_FALSE(decodeCapability(std::span(*claims).first(size)).ok()) << size;
}

TEST(Capability, GrantsWhatItNames) {
  const Capability some = capability();
  EXPECT_TRUE(some.grants(CapabilityRight::kRead, "one"));
  EXPECT_FALSE(some.grants(CapabilityRight::kRead, "three"));
  EXPECT_FALSE(some.grants(CapabilityRight::kAdvise, "one"));
  EXPECT_FALSE(some.grants(CapabilityRight::kRead, ""));
}

// `hearth token` writes the same text: cli/src/commands/token.test.ts.
TEST(CapabilityToken, HasAStableText) {
  const auto token = signCapability(capability(), kSecret);
  ASSERT_TRUE(token.ok());
  const std::string text = textOf(*token);
  EXPECT_EQ(
      text,
      "hearth-token-1.AQQAdGVzdAQAbm9kZQAAAAAAAABAAQAAAAIAAwBvbmUDAHR3bw.V53Z8OZnhBFDjHYkpPo4c1CJ6y"
      "Pwrvt8untEHDCPfUc");
  const auto parsed = parseCapabilityToken("  " + text + "\n");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->claims, token->claims);
  EXPECT_EQ(parsed->key, token->key);
}

TEST(CapabilityToken, RefusesWhatIsNoToken) {
  const std::string text = textOf(*signCapability(capability(), kSecret));
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(parseCapabilityToken(text.substr(0, size)).ok()) << size;
  EXPECT_FALSE(parseCapabilityToken(text + "A").ok());
  EXPECT_FALSE(parseCapabilityToken("hearth-token-1.=.=").ok());
}

TEST(CapabilityToken, IsProvedForOneConversation) {
  const auto token = signCapability(capability(), kSecret);
  const Proof proof =
      proveCapability(ConnectionRole::kDialler, kHelloBytes, kChallengeBytes, *token);
  const auto check = [&](const Proof& given, const std::vector<std::byte>& hello,
                         const std::vector<std::byte>& challenge, std::string_view cluster,
                         const std::vector<std::byte>& secret) {
    return checkCapability(given, hello, challenge, cluster, secret).code();
  };
  EXPECT_EQ(check(proof, kHelloBytes, kChallengeBytes, "test", kSecret), ErrorCode::kOk);
  EXPECT_EQ(check(proof, kHelloBytes, kHelloBytes, "test", kSecret), ErrorCode::kUnauthenticated);
  EXPECT_EQ(check(proof, kChallengeBytes, kChallengeBytes, "test", kSecret),
            ErrorCode::kUnauthenticated);
  EXPECT_EQ(check(proof, kHelloBytes, kChallengeBytes, "other", kSecret),
            ErrorCode::kUnauthenticated);
  EXPECT_EQ(check(proof, kHelloBytes, kChallengeBytes, "test", bytesOf("another secret")),
            ErrorCode::kUnauthenticated);
  const Proof back =
      proveCapability(ConnectionRole::kAcceptor, kHelloBytes, kChallengeBytes, *token);
  EXPECT_EQ(check(back, kHelloBytes, kChallengeBytes, "test", kSecret),
            ErrorCode::kUnauthenticated);
  for (std::size_t i = 0; i < proof.bytes.size(); ++i) {
    Proof changed = proof;
    changed.bytes[i] ^= std::byte{1};
    EXPECT_EQ(check(changed, kHelloBytes, kChallengeBytes, "test", kSecret),
              ErrorCode::kUnauthenticated);
  }
}

}  // namespace
}  // namespace hearth
