#include "manifest/names.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Utf8, AcceptsEveryLength) {
  EXPECT_TRUE(isUtf8(""));
  EXPECT_TRUE(isUtf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5"));
  EXPECT_TRUE(isUtf8("\xed\x9f\xbf\xee\x80\x80"));  // on both sides of the surrogates
  EXPECT_TRUE(isUtf8("\xf4\x8f\xbf\xbf"));          // U+10FFFF
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  for (const char* text : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                           "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                           "\xff", "\xc3", "\xe2\x82", "\xf0\x9f\x94", "\xc3(", "a\xe2(\xa1"}) {
    EXPECT_FALSE(isUtf8(text)) << escaped(text);
  }
}

TEST(Names, SaysWhyAPathCannotBeUsed) {
  using namespace std::string_literals;
  EXPECT_FALSE(unusablePath("a/b.safetensors"));
  EXPECT_FALSE(unusablePath("..a/...b/c.."));
  EXPECT_FALSE(unusablePath(std::string(255, 'n')));
  for (const std::string& path : {""s, "/a"s, "a//b"s, "a/"s, "."s, "a/./b"s, "../a"s, "a/.."s,
                                  "a\0b"s, "\xff"s, std::string(256, 'n')}) {
    EXPECT_TRUE(unusablePath(path)) << escaped(path);
  }
  std::string deep = "d";
  while (deep.size() < 4096) deep += "/d";
  EXPECT_TRUE(unusablePath(deep));
}

TEST(Names, KeepsControlCharactersOutOfRequestHeaders) {
  EXPECT_FALSE(unusableValidator("etag:\"abc\xc3\xa9\""));
  EXPECT_TRUE(unusableValidator("etag:\"a\r\nX-Evil: 1\""));
}

TEST(Names, EscapesForMessages) {
  EXPECT_EQ(escaped("a\nb\xff\\\xc3\xa9"), "a\\x0ab\\xff\\x5c\xc3\xa9");
  EXPECT_LT(escaped(std::string(10000, 'x')).size(), 300u);
}

}  // namespace
}  // namespace hearth
