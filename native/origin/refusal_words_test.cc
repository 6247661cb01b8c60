#include "origin/refusal_words.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(RefusalWords, AreThoseOfS3PagesAndPlainText) {
  EXPECT_EQ(refusalWords("<Error><Code>AccessDenied</Code><Message>Request has expired</Message>"
                         "<StringToSign>x</StringToSign></Error>"),
            "AccessDenied: Request has expired");
  EXPECT_EQ(refusalWords("<Error><Code>SlowDown</Code></Error>"), "SlowDown");
  EXPECT_EQ(refusalWords("<html><head><title>403 Forbidden</title></head><body>x</body>"),
            "403 Forbidden");
  EXPECT_EQ(refusalWords("<html><body>Service\n is busy</body>"), "Service is busy");
  EXPECT_EQ(refusalWords("SignatureError: key pair id is not known here"),
            "SignatureError: key pair id is not known here");
  EXPECT_EQ(refusalWords("<?xml version=\"1.0\"?><Other/>"), "");
  EXPECT_EQ(refusalWords(""), "");
}

TEST(RefusalWords, HoldNoValueOfOurHeaders) {
  const std::vector<std::pair<std::string, std::string>> headers{
      {"authorization", "Bearer hf_abc123"}, {"x-empty", ""}};
  EXPECT_EQ(refusalWords(withoutHeaderValues("not with Bearer hf_abc123, hf_abc123", headers)),
            "not with Bearer ..., ...");
  EXPECT_EQ(withoutHeaderValues("nothing", headers), "nothing");
}

TEST(RefusalWords, HoldNoSecretsAndAreBounded) {
  EXPECT_EQ(refusalWords("bad key AKIAIOSFODNN7EXAMPLEabcdefgh at /x?X-Amz-Signature=abc&y=z"),
            "bad key ... at /x...");
  EXPECT_EQ(refusalWords(std::string("a\x1b[31mb\0c", 9)), "a[31mbc");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "word ";
  EXPECT_EQ(refusalWords(many).size(), 200u);
}

TEST(RefusalWords, GiveTheCodeOfS3Alone) {
  EXPECT_EQ(errorCodeOf("<Error><Code>ExpiredToken</Code></Error>"), "ExpiredToken");
  EXPECT_EQ(errorCodeOf("<Error><Code>two words</Code></Error>"), "");
  EXPECT_EQ(errorCodeOf("no document"), "");
}

}  // namespace
}  // namespace hearth
