#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "base/clock.h"
#include "base/testing/sanitizers.h"
#include "manifest/manifest.h"

namespace hearth {
namespace {

ManifestRow file(std::string path, std::uint64_t size = 1) {
  ManifestRow row;
  row.path = std::move(path);
  row.size = size;
  return row;
}

ManifestRow directory(std::string path, std::int64_t modifiedNs = 0) {
  ManifestRow row;
  row.path = std::move(path);
  row.kind = EntryKind::kDirectory;
  row.modifiedNs = modifiedNs;
  return row;
}

std::vector<std::byte> built(std::vector<ManifestRow> rows, bool skip = false) {
  ManifestBuilder builder(skip);
  for (ManifestRow& row : rows) builder.add(std::move(row));
  auto bytes = builder.build();
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes.ok() ? std::move(*bytes) : std::vector<std::byte>();
}

std::vector<std::string> paths(const Manifest& manifest) {
  std::vector<std::string> out;
  for (std::uint32_t i = 1; i < manifest.totals().entries; ++i) out.push_back(manifest.path(i));
  return out;
}

TEST(ManifestBuilder, GivesTheSameBytesForRowsInAnyOrder) {
  std::vector<ManifestRow> rows;
  for (int i = 0; i < 300; ++i) {
    ManifestRow row = file("d" + std::to_string(i % 7) + "/e/f" + std::to_string(i), 10u + i % 3);
    row.validator = "etag:\"" + std::to_string(i % 50) + "\"";
    if (i % 2 == 0) row.sourceDigest.emplace().fill(static_cast<std::uint8_t>(i));
    rows.push_back(row);
  }
  rows.push_back(directory("empty", 5));
  // Refused rows too must not depend on the order.
  rows.insert(rows.end(), {file("d1"), file("twice", 1), file("twice", 1), directory("d2/e", 7),
                           directory("d2/e", 9), file("x"), directory("x")});
  const auto first = built(rows, true);
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(rows.begin(), rows.end(), random);
    EXPECT_EQ(built(rows, true), first);
  }
}

TEST(ManifestBuilder, RefusesUnusableNamesAndListsTheFirstTen) {
  ManifestBuilder builder(false);
  builder.add(file("good"));
  builder.add(file("bad\xff"));
  builder.add(file("a//b"));
  builder.add(file("../up"));
  for (int i = 0; i < 20; ++i) builder.add(file("/absolute" + std::to_string(i)));
  EXPECT_EQ(builder.unusableCount(), 23u);
  ASSERT_EQ(builder.unusable().size(), 10u);
  EXPECT_EQ(builder.unusable()[0], "bad\\xff: it is not valid UTF-8");
  const auto bytes = builder.build();
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(bytes.error().message.find("23 names"), std::string::npos) << bytes.error().message;
  EXPECT_NE(bytes.error().message.find("bad\\xff"), std::string::npos);
}

TEST(ManifestBuilder, SkipsWhatCannotBeUsedWhenAsked) {
  const auto manifest =
      Manifest::parse(built({file("a"), file("a/b"), file("\xc0"), file("z")}, true));
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(paths(**manifest), (std::vector<std::string>{"a", "z", "a/b"}));
  EXPECT_EQ((*manifest)->entry(1).kind, EntryKind::kDirectory);
}

TEST(ManifestBuilder, TakesEqualRowsForOne) {
  ManifestRow row = file("a", 5);
  row.validator = "etag:\"1\"";
  row.sourceDigest.emplace().fill(1);
  EXPECT_EQ(built({row, row, directory("d"), directory("d")}), built({row, directory("d")}));
}

// Without a file that the origin has, readers would miss it and nobody would know.
TEST(ManifestBuilder, RefusesAFileInTwoStatesEvenIfItSkips) {
  ManifestRow row = file("a", 5);
  row.validator = "etag:\"1\"";
  std::vector<ManifestRow> others(4, row);
  others[0].size = 6;
  others[1].validator = "etag:\"2\"";
  others[2].sourceDigest.emplace().fill(1);
  others[3].executable = true;
  for (const ManifestRow& other : others) {
    ManifestBuilder builder(true);
    builder.add(row);
    builder.add(other);
    builder.add(row);
    const auto bytes = builder.build();
    ASSERT_FALSE(bytes.ok());
    EXPECT_NE(bytes.error().message.find("in two states: a;"), std::string::npos);
  }
}

TEST(ManifestBuilder, RefusesCollisions) {
  for (const auto& rows : std::vector<std::vector<ManifestRow>>{{file("a"), file("a/b")},
                                                                {file("a/b"), file("a")},
                                                                {file("a/b/c"), file("a/b")},
                                                                {file("a"), directory("a")},
                                                                {directory("a"), file("a")}}) {
    ManifestBuilder builder(false);
    for (const ManifestRow& row : rows) builder.add(row);
    EXPECT_EQ(builder.unusableCount(), 1u) << rows[0].path << " " << rows[1].path;
    EXPECT_FALSE(builder.build().ok());
  }
  // Naming a directory that other rows imply is no collision.
  EXPECT_FALSE(built({file("a/b"), directory("a"), directory("c"), file("c/d")}).empty());
}

TEST(ManifestBuilder, RefusesSizesThatOverflow) {
  constexpr std::uint64_t kMax = (std::uint64_t{1} << 63) - 1;
  ManifestBuilder one(false);
  one.add(file("a", kMax + 1));
  EXPECT_EQ(one.unusableCount(), 1u);
  ManifestRow row = file("a", kMax);
  row.objectOffset = 1;
  one.add(row);
  EXPECT_EQ(one.unusableCount(), 2u);
  ManifestBuilder sum(false);
  sum.add(file("a", kMax));
  sum.add(file("b", 1));
  EXPECT_EQ(sum.build().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(built({file("a", kMax)}).empty());
}

TEST(ManifestBuilder, MakesAnEmptyManifest) {
  const auto manifest = Manifest::parse(built({}));
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ((*manifest)->totals().entries, 1u);
  EXPECT_EQ((*manifest)->lookUp(""), kRootEntry);
  EXPECT_EQ((*manifest)->lookUp("a"), std::nullopt);
}

// Sanitizers make everything ten times slower: there it is a tenth of the entries.
constexpr std::uint32_t kFiles = kSanitized ? 100'000 : 1'000'000;

TEST(ManifestBuilder, BuildsAMillionEntries) {
  using Seconds = std::chrono::duration<double>;
  const auto start = Clock::now();
  ManifestBuilder builder(false);
  for (std::uint32_t i = 0; i < kFiles; ++i) {
    char path[64];
    std::snprintf(path, sizeof path, "train/%04u/sample-%08u.jpg", (i * 7919) % 1000, i);
    ManifestRow row = file(path, 100'000 + i % 1000);
    row.key.bytes[0] = static_cast<std::uint8_t>(i);
    row.validator =
        "stat:17000000000000" + std::to_string(i) + ":17000000000000" + std::to_string(i);
    builder.add(std::move(row));
  }
  const auto added = Clock::now();
  const auto bytes = builder.build();
  const auto end = Clock::now();
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const auto manifest = Manifest::parse(*bytes);
  const auto parsed = Clock::now();
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ((*manifest)->totals().files, kFiles);
  EXPECT_EQ((*manifest)->totals().directories, 1002u);
  ASSERT_TRUE((*manifest)->lookUp("train/0000/sample-00000000.jpg"));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%u files: add %.2f s, build %.2f s, parse %.2f s, %.0f bytes an entry, peak %ld MiB\n",
      kFiles, Seconds(added - start).count(), Seconds(end - added).count(),
      Seconds(parsed - end).count(), static_cast<double>(bytes->size()) / kFiles,
      usage.ru_maxrss / 1024);
  EXPECT_LT(bytes->size() / kFiles, 200u);
}

}  // namespace
}  // namespace hearth
