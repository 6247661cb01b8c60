#include "cache/residency_record.h"

#include <gtest/gtest.h>

#include <optional>

#include "cache/residency_testing.h"

namespace hearth {
namespace {

using namespace testing_support;

struct GoldenRecord {
  ResidencyRecord record;
  std::string hex;  // behind its checksum
};

// Nothing for a number that is no type. The compiler wants a case here for each type.
std::optional<GoldenRecord> goldenOf(RecordType type) {
  const std::string keyHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  ContentKey key;
  for (std::uint8_t i = 0; i < 32; ++i) key.bytes[i] = i;
  ResidencyRecord record{.type = type, .key = key};
  const std::string none(16, '0');  // no size
  switch (type) {
    case RecordType::kClaim:
      record.size = kChunkBytes + 65537;
      record.chunk = 1;
      record.blockChecksums = {0x01020304, 0xa0b0c0d0};
      return GoldenRecord{record,
                          "40000000"
                          "01"
                          "00"
                          "0200"
                          "01000000" +
                              keyHex +
                              "0100410000000000"
                              "04030201"
                              "d0c0b0a0"};
    case RecordType::kDrop:
      return GoldenRecord{record,
                          "38000000"
                          "02"
                          "00"
                          "0000"
                          "00000000" +
                              keyHex + none};
    case RecordType::kRetract:
      record.chunk = 7;
      return GoldenRecord{record,
                          "38000000"
                          "03"
                          "00"
                          "0000"
                          "07000000" +
                              keyHex + none};
    case RecordType::kVerified:
      record.size = 5;
      record.digest.fill(0xab);
      return GoldenRecord{record,
                          "58000000"
                          "04"
                          "01"
                          "0000"
                          "00000000" +
                              keyHex + "0500000000000000" +
                              hexOf(std::vector(32, std::byte{0xab}))};
    case RecordType::kDoubt:
      return GoldenRecord{{.type = type},
                          "0c000000"
                          "05"
                          "00"
                          "0000"};
    case RecordType::kAppend:
      return GoldenRecord{{.type = type, .size = 7, .offset = 64},
                          "1c000000"
                          "06"
                          "01"
                          "0000"
                          "4000000000000000"
                          "0700000000000000"};
  }
  return std::nullopt;
}

TEST(ResidencyRecordTest, HasTheDocumentedBytes) {
  std::vector<unsigned> types;
  for (unsigned number = 0; number < 256; ++number) {
    const auto golden = goldenOf(static_cast<RecordType>(number));
    if (!golden) continue;
    types.push_back(number);
    const std::vector<std::byte> bytes = encode({golden->record});
    EXPECT_EQ(hexOf(std::span(bytes).subspan(4)), golden->hex);
    // Read from what is written down here, and its checksum.
    std::vector<std::byte> kept(4);
    const std::vector<std::byte> rest = bytesOfHex(golden->hex);
    const std::uint32_t checksum = crc32c(rest);
    std::memcpy(kept.data(), &checksum, 4);
    kept.insert(kept.end(), rest.begin(), rest.end());
    const ParsedRecord parsed = parseRecord(kept);
    ASSERT_EQ(parsed.kind, ParsedRecord::Kind::kRecord) << number;
    EXPECT_EQ(parsed.record, golden->record) << number;
    EXPECT_EQ(parsed.bytes, kept.size());
    EXPECT_EQ(kept, bytes);
  }
  EXPECT_EQ(types, (std::vector<unsigned>{1, 2, 3, 4, 5, 6}));
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
