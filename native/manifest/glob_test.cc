#include "manifest/glob.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "base/clock.h"

namespace hearth {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  const auto glob = Glob::compile(pattern);
  EXPECT_TRUE(glob.ok()) << pattern << ": " << glob.error().message;
  return glob.ok() && glob->matches(path);
}

TEST(Glob, OneName) {
  EXPECT_TRUE(matches("config.json", "config.json"));
  EXPECT_FALSE(matches("config.json", "config.jsonl"));
  EXPECT_FALSE(matches("config.json", "a/config.json"));
  EXPECT_TRUE(matches("*.safetensors", "model-00001-of-00002.safetensors"));
  EXPECT_TRUE(matches("*.safetensors", ".safetensors"));
  EXPECT_FALSE(matches("*.safetensors", "a/b.safetensors"));
  EXPECT_TRUE(matches("a?c", "abc"));
  EXPECT_TRUE(matches("a?c",
                      "a\xe2\x82\xac"
                      "c"));
  EXPECT_FALSE(matches("a?c", "a/c"));
  EXPECT_FALSE(matches("a?c", "ac"));
}

TEST(Glob, AnyNumberOfParts) {
  for (const char* path : {"x", "a/x", "a/b/x"}) EXPECT_TRUE(matches("**/x", path)) << path;
  EXPECT_FALSE(matches("**/x", "ax"));
  EXPECT_TRUE(matches("a/**/b", "a/b"));
  EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches("a/**/b", "a/xb"));
  EXPECT_TRUE(matches("a/**", "a/b/c"));
  EXPECT_FALSE(matches("a/**", "ab/c"));
  EXPECT_TRUE(matches("a/", "a/b/c"));
  EXPECT_FALSE(matches("a/", "a"));
  EXPECT_TRUE(matches("**", "a/b/c"));
  EXPECT_TRUE(matches("a**b", "axxb"));
  EXPECT_FALSE(matches("a**b", "ax/b"));
}

TEST(Glob, Sets) {
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[a-c]x", "dx"));
  EXPECT_TRUE(matches("[!a-c]x", "dx"));
  EXPECT_FALSE(matches("[^a-c]x", "/x"));
  EXPECT_TRUE(matches("[]-]", "]"));
  EXPECT_TRUE(matches("[]-]", "-"));
  EXPECT_TRUE(matches("[\xce\xb1-\xcf\x89]", "\xce\xb2"));
  EXPECT_TRUE(matches("[\\]]", "]"));
}

TEST(Glob, Alternatives) {
  for (const char* path : {"a.json", "a.txt", "a."}) {
    EXPECT_TRUE(matches("a.{json,txt,}", path)) << path;
  }
  EXPECT_FALSE(matches("a.{json,txt}", "a.md"));
  EXPECT_TRUE(matches("{a,b{c,d}}/*", "bd/x"));
  EXPECT_FALSE(matches("{a,b{c,d}}/*", "b/x"));
  EXPECT_TRUE(matches("{docs/**,*.md}", "docs/a/b"));
  EXPECT_TRUE(matches("{docs/**,*.md}", "README.md"));
  EXPECT_TRUE(matches("{**/,}x", "a/b/x"));
  EXPECT_TRUE(matches("a,b", "a,b"));
}

TEST(Glob, Escapes) {
  EXPECT_TRUE(matches("\\*\\{a", "*{a"));
  EXPECT_FALSE(matches("\\*", "x"));
}

TEST(Glob, SaysWhereAPatternIsWrong) {
  for (const char* pattern : {"", "/a", "[a", "{a", "a}", "a\\", "[z-a]"}) {
    const auto glob = Glob::compile(pattern);
    ASSERT_FALSE(glob.ok()) << pattern;
    EXPECT_EQ(glob.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(glob.error().message.find("at byte"), std::string::npos);
  }
  EXPECT_FALSE(Glob::compile(std::string(4097, 'a')).ok());
}

TEST(Glob, TakesLinearTimeForPatternsThatBlowUpBacktracking) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  std::string braces;
  for (int i = 0; i < 100; ++i) braces += "{a,a*}";
  const std::string path = std::string(1000, 'a') + "b";
  const auto begin = Clock::now();
  EXPECT_FALSE(matches(pattern, path));
  EXPECT_FALSE(matches(braces + "c", path));
  EXPECT_TRUE(matches(std::string(1000, '{') + "a" + std::string(1000, '}'), "a"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace hearth
