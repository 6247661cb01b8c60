#include "wire/authentication.h"

#include <gtest/gtest.h>

#include <string_view>

namespace hearth {
namespace {

std::span<const std::byte> secretOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

const Hello kHello{"c", "a", "i1", {1}};
const Challenge kChallenge{"c", "b", "i2", {2}};

TEST(Authentication, BothSidesComputeTheSame) {
  const Proof proof = proveSecret(ConnectionRole::kDialler, kHello, kChallenge, secretOf("secret"));
  EXPECT_TRUE(sameProof(
      proof, proveSecret(ConnectionRole::kDialler, kHello, kChallenge, secretOf("secret"))));
}

TEST(Authentication, EveryInputMatters) {
  const Proof proof = proveSecret(ConnectionRole::kDialler, kHello, kChallenge, secretOf("secret"));
  const auto differs = [&](ConnectionRole role, const Hello& hello, const Challenge& challenge,
                           std::string_view secret) {
    return !sameProof(proof, proveSecret(role, hello, challenge, secretOf(secret)));
  };
  EXPECT_TRUE(differs(ConnectionRole::kAcceptor, kHello, kChallenge, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, kChallenge, "secreT"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"d", "a", "i1", {1}}, kChallenge, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"c", "x", "i1", {1}}, kChallenge, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"c", "a", "i9", {1}}, kChallenge, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"c", "a", "i1", {9}}, kChallenge, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, {"c", "x", "i2", {2}}, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, {"c", "b", "i9", {2}}, "secret"));
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, {"c", "b", "i2", {9}}, "secret"));
  // A byte moved from one name to the next is another conversation.
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"ca", "", "i1", {1}}, kChallenge, "secret"));
}

TEST(Authentication, ComparesEveryByte) {
  Proof a;
  for (std::size_t i = 0; i < a.code.size(); ++i) {
    Proof b = a;
    b.code[i] ^= 0x80;
    EXPECT_FALSE(sameProof(a, b));
  }
  EXPECT_TRUE(sameProof(a, a));
}

TEST(Authentication, NoncesDiffer) { EXPECT_NE(randomNonce(), randomNonce()); }

}  // namespace
}  // namespace hearth
