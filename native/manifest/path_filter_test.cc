#include "manifest/path_filter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace hearth {
namespace {

bool chosen(const std::string& pattern, std::string_view path) {
  const auto filter = PathFilter::compile(std::span(&pattern, 1), {});
  EXPECT_TRUE(filter.ok()) << pattern << ": " << filter.error().message;
  return filter.ok() && filter->matches(path);
}

TEST(PathFilter, NamesMatchAtAnyDepthAndPathsFromTheRoot) {
  for (const char* path : {"a.bin", "x/y/a.bin"}) EXPECT_TRUE(chosen("*.bin", path)) << path;
  EXPECT_FALSE(chosen("*.bin", "a.bin.json"));
  EXPECT_TRUE(chosen("/*.json", "a.json"));
  EXPECT_FALSE(chosen("/*.json", "x/a.json"));
  EXPECT_TRUE(chosen("./x/*.json", "x/a.json"));
  EXPECT_FALSE(chosen("x/*.json", "z/x/a.json"));
}

TEST(PathFilter, AFolderIsEverythingBelowIt) {
  for (const char* pattern : {"onnx", "onnx/", "/onnx"}) {
    EXPECT_TRUE(chosen(pattern, "onnx/a/model")) << pattern;
    EXPECT_FALSE(chosen(pattern, "onnx2/model")) << pattern;
  }
  EXPECT_TRUE(chosen("onnx", "a/onnx/model"));
  EXPECT_FALSE(chosen("/onnx", "a/onnx/model"));
}

TEST(PathFilter, ExclusionWinsAndNoPatternsChooseEverything) {
  const std::string include = "*.bin", exclude = "x/";
  const auto filter = PathFilter::compile(std::span(&include, 1), std::span(&exclude, 1));
  ASSERT_TRUE(filter.ok());
  EXPECT_TRUE(filter->matches("y/a.bin"));
  EXPECT_FALSE(filter->matches("x/a.bin"));
  EXPECT_TRUE(PathFilter::compile({}, {})->matches("anything"));
}

TEST(PathFilter, NamesThePatternThatIsWrong) {
  for (const std::string pattern : {"", "/", "./", "a[b", "a{b", "a}b"}) {
    const auto filter = PathFilter::compile(std::span(&pattern, 1), {});
    ASSERT_FALSE(filter.ok()) << pattern;
    EXPECT_NE(filter.error().message.find("\"" + pattern + "\""), std::string::npos);
  }
  const std::vector<std::string> many(PathFilter::kMaxPatterns + 1, "a");
  EXPECT_FALSE(PathFilter::compile(many, {}).ok());
}

// Backtracking would need more steps than there are atoms: that this ends at all is the point.
TEST(PathFilter, ManyStarsEndInTimeForShortAndLongPaths) {
  std::string pattern;
  for (int i = 0; i < 64; ++i) pattern += "*n";
  pattern += "z";
  for (const std::size_t length : {100, 255, 256, 4096}) {
    EXPECT_FALSE(chosen(pattern, std::string(length, 'n')));
    EXPECT_TRUE(chosen(pattern, std::string(length, 'n') + "z"));
    EXPECT_FALSE(chosen(pattern, std::string(length, 'n') + "/z"));
  }
}

// Long paths are matched by another way than short ones.
TEST(PathFilter, LongPathsMatchAsShortOnesDo) {
  const std::string deep = std::string(200, 'a') + "/" + std::string(200, 'b') + "/";
  EXPECT_TRUE(chosen("c?d.{bin,json}", deep + "cxd.bin"));
  EXPECT_TRUE(chosen("**/b*/c", deep + "c"));
  EXPECT_FALSE(chosen("**/b*/d", deep + "c"));
  EXPECT_TRUE(chosen("a*", deep + "c"));
  EXPECT_FALSE(chosen("/b*", deep + "c"));
  // More sets than are remembered.
  std::string forks;
  for (int i = 0; i < 12; ++i) forks += "*{x,xy,[a-m]}?";
  std::string varied;
  for (int i = 0; i < 2000; ++i) varied += static_cast<char>('a' + (i * i + i / 7) % 26);
  EXPECT_EQ(chosen(forks + "*", varied), chosen(forks + "*", varied + "a"));
}

}  // namespace
}  // namespace hearth
