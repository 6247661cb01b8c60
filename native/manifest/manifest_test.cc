#include "manifest/manifest.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/crc32c.h"
#include "manifest/format.h"
#include "manifest/manifest_version1.h"

namespace hearth {
namespace {

using manifest_format::Entry;
using manifest_format::Header;

std::vector<std::byte> sample() {
  ManifestBuilder builder(false);
  ManifestRow model{.path = "weights/model.safetensors", .executable = true, .size = 5'000'000'000};
  model.objectOffset = 512;
  model.key.bytes.fill(0xab);
  model.sourceDigest.emplace().fill(0xcd);
  model.modifiedNs = -5;
  model.validator = "etag:\"v1\"";
  builder.add(model);
  builder.add({.path = "config.json", .size = 700, .validator = "etag:\"v1\""});
  builder.add({.path = "latest",
               .kind = EntryKind::kSymlink,
               .symlinkTarget = "weights/model.safetensors"});
  builder.add({.path = "empty", .kind = EntryKind::kDirectory, .modifiedNs = 7});
  builder.add({.path = "weights/a", .size = 0});
  auto bytes = builder.build();
  EXPECT_TRUE(bytes.ok());
  return std::move(*bytes);
}

// Makes the header's checksum right again after a change.
void seal(std::vector<std::byte>& bytes) {
  const std::uint32_t checksum = crc32c(std::span(bytes).first(offsetof(Header, checksum)));
  std::memcpy(bytes.data() + offsetof(Header, checksum), &checksum, sizeof checksum);
}

class TemporaryFile {
 public:
  explicit TemporaryFile(std::span<const std::byte> bytes) {
    path = std::filesystem::temp_directory_path() / ("manifest-test-" + std::to_string(getpid()));
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string path;
};

void walk(const Manifest& manifest) {
  for (std::uint32_t i = 0; i < manifest.totals().entries; ++i) {
    const ManifestEntry entry = manifest.entry(i);
    (void)manifest.find(i, "a");
    (void)manifest.lookUp(manifest.path(i));
    for (std::uint32_t child = 0; child < entry.childCount; ++child) {
      (void)manifest.entry(entry.firstChild + child);
    }
  }
}

TEST(Manifest, KeepsEveryField) {
  const auto parsed = Manifest::parse(sample());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Manifest& manifest = **parsed;
  const ManifestTotals totals = manifest.totals();
  EXPECT_EQ(totals.entries, 7u);
  EXPECT_EQ(totals.files, 3u);
  EXPECT_EQ(totals.directories, 3u);
  EXPECT_EQ(totals.symlinks, 1u);
  EXPECT_EQ(totals.bytes, 5'000'000'700u);

  const ManifestEntry root = manifest.entry(kRootEntry);
  EXPECT_EQ(root.kind, EntryKind::kDirectory);
  EXPECT_EQ(root.parent, kRootEntry);
  EXPECT_EQ(root.firstChild, 1u);
  EXPECT_EQ(root.childCount, 4u);
  EXPECT_EQ(manifest.path(kRootEntry), "");

  const auto index = manifest.lookUp("weights/model.safetensors");
  ASSERT_TRUE(index);
  const ManifestEntry model = manifest.entry(*index);
  EXPECT_EQ(model.index, *index);
  EXPECT_EQ(model.name, "model.safetensors");
  EXPECT_EQ(manifest.entry(model.parent).name, "weights");
  EXPECT_EQ(model.kind, EntryKind::kFile);
  EXPECT_TRUE(model.executable);
  EXPECT_EQ(model.size, 5'000'000'000u);
  EXPECT_EQ(model.objectOffset, 512u);
  EXPECT_EQ(model.key.bytes[31], 0xab);
  ASSERT_TRUE(model.sourceDigest);
  EXPECT_EQ((*model.sourceDigest)[0], 0xcd);
  EXPECT_EQ(model.modifiedNs, -5);
  EXPECT_EQ(model.validator, "etag:\"v1\"");
  EXPECT_EQ(manifest.path(*index), "weights/model.safetensors");

  const auto link = manifest.lookUp("latest");
  ASSERT_TRUE(link);
  EXPECT_EQ(manifest.entry(*link).symlinkTarget, "weights/model.safetensors");
  const auto empty = manifest.lookUp("empty");
  ASSERT_TRUE(empty);
  EXPECT_EQ(manifest.entry(*empty).childCount, 0u);
  EXPECT_EQ(manifest.entry(*empty).modifiedNs, 7);
}

TEST(Manifest, FindsOnlyWhatIsThere) {
  const auto parsed = Manifest::parse(sample());
  ASSERT_TRUE(parsed.ok());
  const Manifest& manifest = **parsed;
  for (const char* path : {"nothing", "weights/", "/weights", "weights//a", "config.json/x",
                           "weights/zz", "Config.json", "."}) {
    EXPECT_EQ(manifest.lookUp(path), std::nullopt) << path;
  }
  EXPECT_EQ(manifest.find(12345, "a"), std::nullopt);
}

TEST(Manifest, HasTheDocumentedBytes) {
  ManifestBuilder builder(false);
  ManifestRow row{.path = "d/f", .size = 3};
  row.key.bytes.fill(0x11);
  row.validator = "etag:\"x\"";
  builder.add(row);
  const auto bytes = builder.build();
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->size(), 128u + 3 * 88 + 16);
  EXPECT_EQ(std::memcmp(bytes->data(), "HRTHMANI\x01\0\0\0\x80\0\0\0", 16), 0);
  EXPECT_EQ(std::memcmp(bytes->data() + 128 + 3 * 88, "dfetag:\"x\"\0\0\0\0\0\0", 16), 0);
  // Changing this digest changes the name of every manifest: it needs a new format version.
  EXPECT_EQ(ContentKey{Sha256::of(*bytes)}.hex(),
            "94bde84eec19a910d0242db6982c846470b475204d00d1178576f5b3509cc706");
}

TEST(Manifest, OpensAFileAndComparesItsDigest) {
  const auto bytes = sample();
  const TemporaryFile file(bytes);
  const Sha256Digest digest = Sha256::of(bytes);
  const auto opened = Manifest::open(file.path, digest);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->digest(), digest);
  EXPECT_TRUE(std::ranges::equal((*opened)->bytes(), bytes));
  const auto trusted = Manifest::open(file.path, std::nullopt);
  ASSERT_TRUE(trusted.ok());
  EXPECT_EQ((*trusted)->digest(), digest);
  Sha256Digest other = digest;
  other[0] ^= 1;
  EXPECT_EQ(Manifest::open(file.path, other).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(Manifest::open(file.path + ".absent", digest).code(), ErrorCode::kNotFound);
}

TEST(Manifest, RefusesEveryTruncationAndOtherVersions) {
  const auto bytes = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Manifest::parse(std::span(bytes).first(size)).code(), ErrorCode::kCorrupt) << size;
  }
  auto longer = bytes;
  longer.resize(bytes.size() + 8);
  EXPECT_EQ(Manifest::parse(longer).code(), ErrorCode::kCorrupt);
  auto future = bytes;
  future[offsetof(Header, version)] = std::byte{2};
  EXPECT_EQ(Manifest::parse(future).code(), ErrorCode::kUnsupported);
}

// A manifest of a later release: unknown fields at the end of its header and of its entries, and an
// unknown part behind the strings.
std::vector<std::byte> extended(const std::vector<std::byte>& bytes, std::uint32_t moreHeader,
                                std::uint32_t moreEntry, std::size_t behind) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<std::byte> out(bytes.begin(), bytes.begin() + sizeof header);
  out.resize(out.size() + moreHeader, std::byte{0x77});
  for (std::uint32_t i = 0; i < header.entries; ++i) {
    const auto* const at = bytes.data() + header.entriesOffset + i * sizeof(Entry);
    out.insert(out.end(), at, at + sizeof(Entry));
    out.resize(out.size() + moreEntry, std::byte{0x78});
  }
  out.insert(out.end(), bytes.begin() + static_cast<std::ptrdiff_t>(header.digestsOffset),
             bytes.end());
  out.resize(out.size() + behind, std::byte{0x79});
  header.headerBytes += moreHeader;
  header.entryBytes = sizeof(Entry) + moreEntry;
  header.optionalFeatures = behind == 0 ? 0 : 8;
  header.fileBytes = out.size();
  header.entriesOffset += moreHeader;
  header.digestsOffset += moreHeader + header.entries * moreEntry;
  header.stringsOffset += moreHeader + header.entries * moreEntry;
  std::memcpy(out.data(), &header, sizeof header);
  seal(out);
  return out;
}

TEST(Manifest, ReadsWhatTheFirstReleaseWrote) {
  const auto bytes = testing_support::manifestBytes();
  EXPECT_EQ(hexOf(Sha256::of(bytes)), testing_support::kVersion1ManifestDigest);
  const auto parsed = Manifest::parse(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Manifest& manifest = **parsed;
  EXPECT_EQ(manifest.totals().files, 4u);
  EXPECT_EQ(manifest.totals().bytes, 570u + 5000000000u + 4999999999u + 8192u);
  const ManifestEntry one = manifest.entry(*manifest.lookUp("weights/model-00001.safetensors"));
  EXPECT_EQ(one.size, 5000000000u);
  EXPECT_EQ(one.validator, "etag:\"w1\"");
  EXPECT_EQ(one.sourceDigest->at(31), 0x22);
  EXPECT_EQ(one.key.bytes[0], 5000000000u % 251);
  EXPECT_TRUE(manifest.entry(*manifest.lookUp("bin/run")).executable);
  EXPECT_EQ(manifest.entry(*manifest.lookUp("latest")).symlinkTarget,
            "weights/model-00001.safetensors");
  EXPECT_EQ(manifest.entry(*manifest.lookUp("empty")).modifiedNs, 7);
  // And writes it: the digest is the name.
  ManifestBuilder builder(false);
  for (std::uint32_t i = 1; i < manifest.totals().entries; ++i) {
    const ManifestEntry entry = manifest.entry(i);
    if (entry.kind == EntryKind::kDirectory && entry.childCount != 0) continue;
    builder.add({.path = manifest.path(i),
                 .kind = entry.kind,
                 .executable = entry.executable,
                 .size = entry.size,
                 .objectOffset = entry.objectOffset,
                 .key = entry.key,
                 .sourceDigest = entry.sourceDigest,
                 .modifiedNs = entry.modifiedNs,
                 .symlinkTarget = std::string(entry.symlinkTarget),
                 .validator = std::string(entry.validator)});
  }
  EXPECT_EQ(*builder.build(), bytes);
}

TEST(Manifest, SkipsWhatLaterReleasesAdd) {
  const auto bytes = testing_support::manifestBytes();
  const auto plain = *Manifest::parse(bytes);
  for (const auto& [header, entry, behind] : {std::tuple{0u, 0u, 0u}, std::tuple{8u, 0u, 0u},
                                              std::tuple{0u, 8u, 0u}, std::tuple{64u, 40u, 24u}}) {
    const auto longer = extended(bytes, header, entry, behind);
    const auto parsed = Manifest::parse(longer);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_EQ((*parsed)->totals().entries, plain->totals().entries);
    for (std::uint32_t i = 0; i < plain->totals().entries; ++i) {
      EXPECT_EQ((*parsed)->path(i), plain->path(i));
      EXPECT_EQ((*parsed)->entry(i).key, plain->entry(i).key);
      EXPECT_EQ((*parsed)->entry(i).sourceDigest, plain->entry(i).sourceDigest);
    }
    walk(**parsed);
    const TemporaryFile file(longer);
    const auto trusted = Manifest::open(file.path, std::nullopt);
    ASSERT_TRUE(trusted.ok());
    walk(**trusted);
  }
}

TEST(Manifest, RefusesFeaturesThatItMustKnow) {
  auto bytes = sample();
  bytes[offsetof(Header, requiredFeatures)] = std::byte{2};
  seal(bytes);
  const auto parsed = Manifest::parse(bytes);
  EXPECT_EQ(parsed.code(), ErrorCode::kUnsupported);
  // Optional ones may have reserved bytes and flags that mean something to others.
  bytes = sample();
  bytes[offsetof(Header, optionalFeatures)] = std::byte{2};
  bytes[offsetof(Header, reserved)] = std::byte{1};
  bytes[sizeof(Header) + sizeof(Entry) + offsetof(Entry, flags)] |= std::byte{0x80};
  bytes[sizeof(Header) + sizeof(Entry) + offsetof(Entry, reserved)] = std::byte{9};
  seal(bytes);
  EXPECT_TRUE(Manifest::parse(bytes).ok());
}

TEST(Manifest, RefusesLengthsThatCannotBe) {
  for (const std::uint32_t bad : {8u, 127u, 132u, 5000u, ~0u}) {
    for (const std::size_t field : {offsetof(Header, headerBytes), offsetof(Header, entryBytes)}) {
      auto bytes = sample();
      std::memcpy(bytes.data() + field, &bad, sizeof bad);
      seal(bytes);
      EXPECT_EQ(Manifest::parse(bytes).code(), ErrorCode::kCorrupt) << field << " " << bad;
    }
  }
}

TEST(Manifest, RefusesDamagedEntries) {
  const auto bytes = sample();
  struct Damage {
    const char* what;
    std::uint32_t index;
    void (*apply)(Entry&);
  };
  const Damage damages[] = {
      {"kind", 1, [](Entry& e) { e.kind = 3; }},
      {"root kind", 0, [](Entry& e) { e.kind = 0; }},
      {"flag", 1, [](Entry& e) { e.flags = 2; }},
      {"reserved", 1, [](Entry& e) { e.reserved[5] = 1; }},
      {"parent behind", 1, [](Entry& e) { e.parent = 6; }},
      {"parent itself", 4, [](Entry& e) { e.parent = 4; }},
      {"parent a file", 5, [](Entry& e) { e.parent = 1; }},
      {"other directory", 5, [](Entry& e) { e.parent = 2; }},
      {"name outside", 1, [](Entry& e) { e.name.packed = 0xffff0000ffffffff; }},
      {"name empty", 1, [](Entry& e) { e.name.packed = 0; }},
      {"unsorted", 1, [](Entry& e) { e.name = manifest_format::StringReference::of(30, 1); }},
      {"text outside", 1, [](Entry& e) { e.text.packed = 0x0001ffffffffffff; }},
      {"size", 1, [](Entry& e) { e.sizeOrChildren = ~std::uint64_t{0}; }},
      {"offset", 1, [](Entry& e) { e.objectOffset = ~std::uint64_t{0}; }},
      {"totals", 1, [](Entry& e) { e.sizeOrChildren += 1; }},
      {"digest", 6, [](Entry& e) { e.digest = 2; }},
      {"children", 4, [](Entry& e) { e.sizeOrChildren = std::uint64_t{2} << 32 | 1; }},
      {"too many children", 4, [](Entry& e) { e.sizeOrChildren = std::uint64_t{9} << 32 | 5; }},
      {"no children", 4, [](Entry& e) { e.sizeOrChildren = 5; }},
      {"directory with key", 4, [](Entry& e) { e.key[0] = 1; }},
      {"link without target", 3, [](Entry& e) { e.text.packed = 0; }},
  };
  for (const Damage& damage : damages) {
    auto damaged = bytes;
    Entry entry;
    std::byte* const at = damaged.data() + sizeof(Header) + damage.index * sizeof(Entry);
    std::memcpy(&entry, at, sizeof entry);
    damage.apply(entry);
    std::memcpy(at, &entry, sizeof entry);
    EXPECT_EQ(Manifest::parse(damaged).code(), ErrorCode::kCorrupt) << damage.what;
    // Without the full check the answers are wrong but every read stays inside.
    const TemporaryFile file(damaged);
    const auto trusted = Manifest::open(file.path, std::nullopt);
    ASSERT_TRUE(trusted.ok()) << damage.what;
    walk(**trusted);
  }
}

TEST(Manifest, SurvivesRandomDamage) {
  const auto bytes = sample();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    auto damaged = bytes;
    for (int i = 0; i < 3; ++i) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    }
    seal(damaged);
    if (const auto parsed = Manifest::parse(damaged); parsed.ok()) walk(**parsed);
    if (round % 10 != 0) continue;
    const TemporaryFile file(damaged);
    if (const auto trusted = Manifest::open(file.path, std::nullopt); trusted.ok()) walk(**trusted);
  }
}

}  // namespace
}  // namespace hearth
