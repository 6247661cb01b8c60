#include "wire/capability.h"

#include <gtest/gtest.h>

#include "wire/revoked_tokens.h"

namespace hearth {
namespace {

std::vector<std::byte> bytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const std::vector<std::byte> kSecret = bytesOf("a secret of the cluster");
const std::vector<std::byte> kHelloBytes = bytesOf("hello"), kChallengeBytes = bytesOf("challenge");

// As it is decoded.
Capability decoded(const Capability& made) {
  const auto claims = encodeCapability(made);
  EXPECT_TRUE(claims.ok());
  const auto read = decodeCapability(*claims);
  EXPECT_TRUE(read.ok());
  Capability same = *read;
  same.client = {};
  same.id = {};
  EXPECT_EQ(same, made);
  return *read;
}

Capability capability() {
  return {.cluster = "test",
          .node = "node",
          .expiresAtMs = std::uint64_t{1} << 62,
          .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
          .datasets = {"one", "two"}};
}

// Of a pod.
Capability ofNodes(std::vector<std::string> nodes) {
  Capability made = capability();
  made.node = "";
  made.podNamespace = "team";
  made.pod = "reader-0";
  made.nodes = std::move(nodes);
  return made;
}

TEST(Capability, IsTheSameWhenDecoded) {
  decoded(ofNodes({"node", "other"}));
  decoded(capability());
  const auto claims = encodeCapability(capability());
  ASSERT_TRUE(claims.ok());
  for (std::size_t size = 0; size < claims->size(); ++size)
    EXPECT_FALSE(decodeCapability(std::span(*claims).first(size)).ok()) << size;
}

TEST(Capability, NamesItsPod) {
  Capability ofPod = capability();
  ofPod.podNamespace = "team";
  ofPod.pod = "reader-0";
  EXPECT_EQ(decoded(ofPod).client, (ClientIdentity{"team", "team/reader-0"}));
  // node-agent/src/clients/token.test.ts expects the same id.
  EXPECT_EQ(decoded(capability()).id,
            "27ffa7c3af7027d21953af95b41a0886dad568d9ba62e7f1e635308f009bba4c");
  // A token that replaces another one is the same client's.
  Capability later = capability();
  later.expiresAtMs += 1;
  EXPECT_EQ(decoded(later).client, decoded(capability()).client);
  later.datasets = {"one"};
  EXPECT_NE(decoded(later).client, decoded(capability()).client);
}

// node-agent/src/clients/token.test.ts expects the same text.
TEST(CapabilityToken, OfAPodHasAStableText) {
  Capability ofPod = capability();
  ofPod.podNamespace = "team";
  ofPod.pod = "reader-0";
  EXPECT_EQ(textOf(*signCapability(ofPod, kSecret)),
            "hearth-token-1."
            "AQQAdGVzdAQAbm9kZQAAAAAAAABAAQAAAAIAAwBvbmUDAHR3bwEABgAEAHRlYW0CAAoACAByZWFkZXItMA.U-"
            "QpKw8NbhnysXzsfKUamTGK1ygIc937qdhSOjNK92I");
}

// The text is also in node-agent/src/clients/token.test.ts.
TEST(CapabilityToken, OfAPodOfANodeHasAStableText) {
  EXPECT_EQ(textOf(*signCapability(ofNodes({"node", "other"}), kSecret)),
            "hearth-token-1.AQQAdGVzdAAAAAAAAAAAAEABAAAAAgADAG9uZQMAdHdvAQAGAAQAdGV"
            "hbQIACgAIAHJlYWRlci0wAwAPAAIABABub2RlBQBvdGhlcg.X9EH8MiqZiSHHpf2gpxCvfCK6QZkx4cAR_"
            "LoguLYQrE");
}

TEST(Capability, IsForTheAgentsThatItNames) {
  const Capability some = ofNodes({"home", "other"});
  EXPECT_TRUE(some.isFor("home") && some.isFor("other"));
  EXPECT_FALSE(some.isFor("third") || some.isFor(""));
  EXPECT_TRUE(some.isOf("home"));
  EXPECT_FALSE(some.isOf("other") || some.isOf("third"));
  Capability any = ofNodes({});
  any.node = "";
  EXPECT_TRUE(any.isFor("third") && any.isOf("third"));
  any.node = "home";
  EXPECT_TRUE(any.isFor("home") && any.isOf("home"));
  EXPECT_FALSE(any.isFor("third") || any.isOf("third"));
}

TEST(RevokedTokens, CoverATokenAPodAndANamespace) {
  const Capability revoked = decoded(ofNodes({"home"})), plain = decoded(capability());
  EXPECT_FALSE(RevokedTokens().covers(revoked));
  EXPECT_TRUE((RevokedTokens{.tokens = {revoked.id}}.covers(revoked)));
  EXPECT_TRUE((RevokedTokens{.pods = {"team/reader-0"}}.covers(revoked)));
  EXPECT_TRUE((RevokedTokens{.namespaces = {"team"}}.covers(revoked)));
  const RevokedTokens others{.tokens = {revoked.id}, .pods = {"/"}, .namespaces = {""}};
  EXPECT_FALSE(others.covers(plain)) << "a token of no pod";
  EXPECT_FALSE((RevokedTokens{.pods = {"team/reader-1"}, .namespaces = {"tea"}}.covers(revoked)));
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
