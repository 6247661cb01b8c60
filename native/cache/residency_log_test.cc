#include "cache/residency_log.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cache/cache_testing.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using testing_support::keyOf;

ResidencyRecord claim(std::uint64_t n, std::uint64_t size, std::uint32_t chunk) {
  ResidencyRecord record{RecordType::kClaim, keyOf(n), size, chunk, {}};
  record.blockChecksums.assign(blocksOf(chunkLength(size, chunk)), static_cast<std::uint32_t>(n));
  return record;
}

std::string hexOf(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
    text += digits;
  }
  return text;
}

TEST(ResidencyRecordTest, HasTheDocumentedBytes) {
  ResidencyRecord record;
  for (std::uint8_t i = 0; i < 32; ++i) record.key.bytes[i] = i;
  record.size = kChunkBytes + 65537;
  record.chunk = 1;
  record.blockChecksums = {0x01020304, 0xa0b0c0d0};
  std::vector<std::byte> bytes;
  appendRecord(bytes, record);
  EXPECT_EQ(hexOf(std::span(bytes).subspan(4)),
            "01"
            "00"
            "0200"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "0100410000000000"
            "01000000"
            "00000000"
            "04030201"
            "d0c0b0a0");
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data(), 4);
  EXPECT_EQ(checksum, crc32c(std::span(bytes).subspan(4)));
  const auto parsed = parseRecord(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->record, record);
  EXPECT_EQ(parsed->bytes, bytes.size());
}

TEST(ResidencyRecordTest, RefusesEveryChangedBitAndEveryCut) {
  std::vector<std::byte> bytes;
  appendRecord(bytes, claim(1, 200000, 0));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_FALSE(parseRecord(changed)) << bit;
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parseRecord(std::span(bytes).first(length))) << length;
  }
  const std::vector<std::byte> zeros(1000);
  EXPECT_FALSE(parseRecord(zeros));
}

TEST(ResidencyRecordTest, RefusesFieldsThatContradictOneAnother) {
  const auto accepted = [](const ResidencyRecord& record) {
    std::vector<std::byte> bytes;
    appendRecord(bytes, record);
    return parseRecord(bytes).has_value();
  };
  EXPECT_TRUE(accepted(claim(1, 65537, 0)));
  ResidencyRecord beyond = claim(1, 65537, 0);
  beyond.chunk = 1;
  EXPECT_FALSE(accepted(beyond));
  ResidencyRecord checksums = claim(1, 65537, 0);
  checksums.blockChecksums.pop_back();
  EXPECT_FALSE(accepted(checksums));
  ResidencyRecord drop{.type = RecordType::kDrop, .key = keyOf(1)};
  EXPECT_TRUE(accepted(drop));
  drop.size = 1;
  EXPECT_FALSE(accepted(drop));
  EXPECT_FALSE(accepted({.type = static_cast<RecordType>(9), .key = keyOf(1)}));
}

class ResidencyLogTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(run(files.makeDirectory("/c", 0755)).ok()); }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::unique_ptr<ResidencyLog> open(CrashFileSystem& from) {
    replayed.clear();
    auto opened = run(ResidencyLog::open(
        from, "/c", [this](const ResidencyRecord& record) { replayed.push_back(record); }));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }
  static std::vector<std::byte> encode(const std::vector<ResidencyRecord>& records) {
    std::vector<std::byte> bytes;
    for (const ResidencyRecord& record : records) appendRecord(bytes, record);
    return bytes;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::vector<ResidencyRecord> replayed;
};

TEST_F(ResidencyLogTest, BeginsWithTheDocumentedHeader) {
  open(files);
  const auto file = files.openForReading("/c/residency.log");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(hexOf({*(*file)->map(16), 16}), "484541525448524c01000000f5fe279d");
}

TEST_F(ResidencyLogTest, ReplaysWhatWasAppendedAcrossReads) {
  std::vector<ResidencyRecord> records;
  for (std::uint64_t n = 0; n < 3000; ++n) records.push_back(claim(n, kChunkBytes, 0));
  records.push_back({.type = RecordType::kDrop, .key = keyOf(7)});
  const auto bytes = encode(records);
  ASSERT_GT(bytes.size(), 900'000u);
  ASSERT_TRUE(run(open(files)->append(bytes)).ok());
  EXPECT_EQ(open(files)->bytes(), ResidencyLog::kHeaderBytes + bytes.size());
  EXPECT_EQ(replayed, records);
}

TEST_F(ResidencyLogTest, StopsAtTheFirstBadRecordAndCutsItOff) {
  const std::vector<ResidencyRecord> records{claim(1, 9000, 0), claim(2, 9000, 0),
                                             claim(3, 9000, 0)};
  ASSERT_TRUE(run(open(files)->append(encode(records))).ok());
  files.corrupt("/c/residency.log", ResidencyLog::kHeaderBytes + recordBytes(1) + 20);
  auto log = open(files);
  ASSERT_EQ(replayed.size(), 1u);
  EXPECT_EQ(replayed[0], records[0]);
  // What stood behind the bad record does not come back behind a new one of the same length.
  ASSERT_TRUE(run(log->append(encode({claim(4, 9000, 0)}))).ok());
  open(files);
  ASSERT_EQ(replayed.size(), 2u);
  EXPECT_EQ(replayed[1], claim(4, 9000, 0));
}

TEST_F(ResidencyLogTest, AnAppendThatFailsLeavesNothingBehind) {
  auto log = open(files);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_FALSE(run(log->append(encode({claim(1, 9000, 0), claim(2, 9000, 0)}))).ok());
  ASSERT_TRUE(run(log->append(encode({claim(3, 9000, 0)}))).ok());
  open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{claim(3, 9000, 0)}));
}

TEST_F(ResidencyLogTest, ARewriteIsTheOldLogOrTheNewOneAfterACrash) {
  auto log = open(files);
  const std::vector<ResidencyRecord> before{claim(1, 9000, 0), claim(2, 9000, 0)};
  const std::vector<ResidencyRecord> after{claim(2, 9000, 0)};
  ASSERT_TRUE(run(log->append(encode(before))).ok());
  ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  const auto start = files.killCopy();
  for (std::uint64_t at = 0; at < 8; ++at) {
    const auto copy = start->killCopy();
    auto opened = open(*copy);
    copy->crashAfter(at);
    const bool done = run(opened->rewrite(encode(after))).ok();
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto survivor = copy->crashCopy(seed);
      open(*survivor);
      EXPECT_TRUE(replayed == after || (!done && replayed == before)) << at << " " << seed;
    }
  }
}

TEST_F(ResidencyLogTest, RefusesALogOfAnotherVersionAndBeginsAnewAfterABadHeader) {
  open(files);
  auto file = run(files.open("/c/residency.log", {.write = true}));
  std::array<std::byte, 16> header{};
  std::memcpy(header.data(), "HEARTHRL\x02", 9);
  const std::uint32_t checksum = crc32c({header.data(), 12});
  std::memcpy(header.data() + 12, &checksum, 4);
  ASSERT_TRUE(run((*file)->writeAt(header, 0)).ok());
  const auto opened = run(ResidencyLog::open(files, "/c", [](const ResidencyRecord&) {}));
  EXPECT_EQ(opened.code(), ErrorCode::kUnsupported);
  files.corrupt("/c/residency.log", 0);
  EXPECT_EQ(open(files)->bytes(), ResidencyLog::kHeaderBytes);
}

}  // namespace
}  // namespace hearth
