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

template <class Body>
std::vector<std::byte> bodyOf(const Body& body) {
  const std::vector<std::byte> frame = encodeFrame(body);
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

Proof prove(ConnectionRole role, const Hello& hello, const Challenge& challenge,
            std::string_view secret) {
  return proveSecret(role, bodyOf(hello), bodyOf(challenge), secretOf(secret));
}

TEST(Authentication, BothSidesComputeTheSame) {
  const Proof proof = prove(ConnectionRole::kDialler, kHello, kChallenge, "secret");
  EXPECT_TRUE(sameProof(proof, prove(ConnectionRole::kDialler, kHello, kChallenge, "secret")));
}

TEST(Authentication, EveryInputMatters) {
  const Proof proof = prove(ConnectionRole::kDialler, kHello, kChallenge, "secret");
  const auto differs = [&](ConnectionRole role, const Hello& hello, const Challenge& challenge,
                           std::string_view secret) {
    return !sameProof(proof, prove(role, hello, challenge, secret));
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
  // Offered and chosen versions, features and kinds of proof.
  Hello offer = kHello;
  offer.features ^= 1;
  EXPECT_TRUE(differs(ConnectionRole::kDialler, offer, kChallenge, "secret"));
  offer = kHello;
  ++offer.newestVersion;
  EXPECT_TRUE(differs(ConnectionRole::kDialler, offer, kChallenge, "secret"));
  Challenge chosen = kChallenge;
  chosen.features ^= 1;
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, chosen, "secret"));
  chosen = kChallenge;
  chosen.proofKind = ProofKind::kCapability;
  EXPECT_TRUE(differs(ConnectionRole::kDialler, kHello, chosen, "secret"));
  // A byte moved from one name to the next is another conversation.
  EXPECT_TRUE(differs(ConnectionRole::kDialler, {"ca", "", "i1", {1}}, kChallenge, "secret"));
}

TEST(Authentication, CoversFieldsThatThisReleaseDoesNotKnow) {
  std::vector<std::byte> later = bodyOf(kHello);
  const std::vector<std::byte> challenge = bodyOf(kChallenge);
  const Proof before = proveSecret(ConnectionRole::kDialler, later, challenge, secretOf("s"));
  for (const int byte : {77, 0, 1, 0, 5}) later.push_back(static_cast<std::byte>(byte));
  ASSERT_TRUE(decodeBody<Hello>(later).ok());
  EXPECT_FALSE(
      sameProof(before, proveSecret(ConnectionRole::kDialler, later, challenge, secretOf("s"))));
}

TEST(Authentication, ComparesKindLengthAndEveryByte) {
  const Proof a{ProofKind::kClusterSecret, std::vector<std::byte>(32)};
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    Proof b = a;
    b.bytes[i] ^= std::byte{0x80};
    EXPECT_FALSE(sameProof(a, b));
  }
  EXPECT_TRUE(sameProof(a, a));
  EXPECT_FALSE(sameProof(a, {ProofKind::kCertificate, a.bytes}));
  EXPECT_FALSE(sameProof(a, {ProofKind::kClusterSecret, std::vector<std::byte>(31)}));
}

TEST(Authentication, NoncesDiffer) { EXPECT_NE(randomNonce(), randomNonce()); }

}  // namespace
}  // namespace hearth
