#include "cache/residency_record.h"

#include <gtest/gtest.h>

#include "cache/residency_testing.h"

namespace hearth {
namespace {

using namespace testing_support;

TEST(ResidencyRecordTest, HasTheDocumentedBytes) {
  ResidencyRecord record;
  for (std::uint8_t i = 0; i < 32; ++i) record.key.bytes[i] = i;
  record.size = kChunkBytes + 65537;
  record.chunk = 1;
  record.blockChecksums = {0x01020304, 0xa0b0c0d0};
  const std::string key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  std::vector<std::byte> bytes = encode({record});
  EXPECT_EQ(hexOf(std::span(bytes).subspan(4)),
            "40000000"
            "01"
            "00"
            "0200"
            "01000000" +
                key +
                "0100410000000000"
                "04030201"
                "d0c0b0a0");
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data(), 4);
  EXPECT_EQ(checksum, crc32c(std::span(bytes).subspan(4)));
  const ParsedRecord parsed = parseRecord(bytes);
  ASSERT_EQ(parsed.kind, ParsedRecord::Kind::kRecord);
  EXPECT_EQ(parsed.record, record);
  EXPECT_EQ(parsed.bytes, bytes.size());

  ResidencyRecord verified{.type = RecordType::kVerified, .key = record.key, .size = 5};
  verified.digest.fill(0xab);
  bytes = encode({verified});
  std::string digest;
  for (int i = 0; i < 32; ++i) digest += "ab";
  EXPECT_EQ(hexOf(std::span(bytes).subspan(4)),
            "58000000"
            "04"
            "01"
            "0000"
            "00000000" +
                key + "0500000000000000" + digest);
  EXPECT_EQ(parseRecord(bytes).record, verified);
  bytes = encode({{.type = RecordType::kDoubt}});
  EXPECT_EQ(hexOf(std::span(bytes).subspan(4)), "0c00000005000000");
  bytes = encode({{.type = RecordType::kAppend, .size = 7, .offset = 64}});
  EXPECT_EQ(hexOf(std::span(bytes).subspan(4)),
            "1c000000060100004000000000000000"
            "0700000000000000");
}

TEST(ResidencyRecordTest, RefusesEveryChangedBitAndEveryCut) {
  const auto bytes = encode({claim(1, 200000, 0)});
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_NE(parseRecord(changed).kind, ParsedRecord::Kind::kRecord) << bit;
    EXPECT_NE(parseRecord(changed).kind, ParsedRecord::Kind::kSkipped) << bit;
  }
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(parseRecord(std::span(bytes).first(length)).kind, ParsedRecord::Kind::kCut) << length;
  }
  const std::vector<std::byte> zeros(1000);
  EXPECT_EQ(parseRecord(zeros).kind, ParsedRecord::Kind::kBad);
}

TEST(ResidencyRecordTest, SkipsWhatLaterVersionsAdd) {
  for (const ResidencyRecord& record :
       {claim(1, 200000, 0), ResidencyRecord{.type = RecordType::kDrop, .key = keyOf(2)},
        ResidencyRecord{.type = RecordType::kRetract, .key = keyOf(3), .chunk = 7},
        verification(4, 9000)}) {
    std::vector<std::byte> bytes = encode({record});
    bytes.resize(bytes.size() + 40, std::byte{0x5a});
    seal(bytes);
    const ParsedRecord parsed = parseRecord(bytes);
    ASSERT_EQ(parsed.kind, ParsedRecord::Kind::kRecord);
    EXPECT_EQ(parsed.record, record);
    EXPECT_EQ(parsed.bytes, bytes.size());
  }
  // Only claims have block checksums: a count of them elsewhere must not be believed.
  for (const RecordType type : {RecordType::kDoubt, RecordType::kAppend, RecordType::kVerified}) {
    std::vector<std::byte> bytes = encode({{.type = type, .key = keyOf(5)}});
    bytes[10] = std::byte{64};
    seal(bytes);
    EXPECT_EQ(parseRecord(bytes).kind, ParsedRecord::Kind::kBad);
  }
  EXPECT_EQ(parseRecord(unknown(true)).kind, ParsedRecord::Kind::kSkipped);
  EXPECT_EQ(parseRecord(unknown(true)).bytes, unknown(true).size());
  EXPECT_EQ(parseRecord(unknown(false)).kind, ParsedRecord::Kind::kUnknown);
}

TEST(ResidencyRecordTest, RefusesFieldsThatContradictOneAnother) {
  const auto accepted = [](const ResidencyRecord& record) {
    return parseRecord(encode({record})).kind == ParsedRecord::Kind::kRecord;
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
  ResidencyRecord verified = verification(1, 9000);
  EXPECT_TRUE(accepted(verified));
  verified.chunk = 1;
  EXPECT_FALSE(accepted(verified));
}

}  // namespace
}  // namespace hearth
