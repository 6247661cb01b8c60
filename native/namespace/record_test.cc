#include "namespace/record.h"

#include <gtest/gtest.h>

#include <string>

#include "base/byte_codec.h"
#include "base/crc32c.h"
#include "namespace/testing/key_examples.h"
#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

std::string hexOf(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(byte) >> 4];
    hex += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return hex;
}

Bytes bytesOf(const Record& record) {
  Bytes bytes;
  appendRecord(bytes, record);
  return bytes;
}

void repair(Bytes& bytes) {
  ByteWriter fixed;
  fixed.u32(static_cast<std::uint32_t>(bytes.size()));
  const Bytes length = fixed.take();
  std::copy(length.begin(), length.end(), bytes.begin() + 4);
  ByteWriter checksum;
  checksum.u32(crc32c(std::span(bytes).subspan(4)));
  const Bytes crc = checksum.take();
  std::copy(crc.begin(), crc.end(), bytes.begin());
}

// A record with one put of these bytes.
Bytes withChange(std::span<const std::byte> key, std::span<const std::byte> value) {
  Bytes bytes = bytesOf({1, 2, {}});
  bytes[28] = std::byte{1};
  ByteWriter out(bytes);
  out.u8(1);
  out.u16(static_cast<std::uint16_t>(key.size()));
  out.bytes(key);
  out.u32(static_cast<std::uint32_t>(value.size()));
  out.bytes(value);
  repair(bytes);
  return bytes;
}

TEST(Record, AllKindsOfKeysComeBack) {
  const Record record = recordOfAllKinds();
  Bytes bytes = bytesOf(record);
  const std::size_t size = bytes.size();
  bytes.resize(size + 100);  // what follows is no part of it
  const ParsedRecord parsed = parseRecord(bytes);
  ASSERT_EQ(parsed.kind, Parse::kGood);
  EXPECT_EQ(parsed.bytes, size);
  EXPECT_EQ(parsed.record, record);
}

// Every later release reads these bytes.
TEST(Record, BytesOfAllKinds) {
  EXPECT_EQ(
      hexOf(bytesOf(recordOfAllKinds())),
      "5d1aa21006030000010000000f000000000000001000000000000000160000000101000138000000010000000000"
      "00000000000000000000020000000000000000000000000000000f00000000000000110000000000000012000000"
      "0000000001050002000000031600000004006e6f6465040500000000000000000000000000000115000300000003"
      "04050000000000000000000000000000080000001300000000000000011d00040000000304050000000000000000"
      "000000000000000000000000001446000000150000000000000010000000100107000000000600000d0000000000"
      "0000090000000008000009000000000800000e000000030000000405000000000000000000000000000001090005"
      "00000600000000072f00000001a401160000001700000018000000e7ffffffffffffff1a000000000000001b0000"
      "00000000001c000000000000000109000600000600000000074100000009000000000800001d000000ffffff0200"
      "000000000200000009000000000800000a0000000b0000000c000000000000000000000000000000010000000000"
      "00000109000700000600000000070a0000000800746f2f7468657265011100080000060000000007000000000000"
      "001e0e0000001f0000000000000004006e616d65010f00090000060000000007757365722e780500000003007600"
      "770109000a00000600000000071c0000000900000000080000030000000405000000000000000000000000000001"
      "0d000b000000000000002000000021210000000700000000060000030100000009000000000800000a0000000b00"
      "00000c000000020100010205000200000003021500030000000304050000000000000000000000000000021d0004"
      "00000003040500000000000000000000000000000000000000000014020900050000060000000007020900060000"
      "060000000007020900070000060000000007021100080000060000000007000000000000001e020f000900000600"
      "00000007757365722e780209000a0000060000000007020d000b000000000000002000000021");
}

TEST(Record, ATornRecordIsCutAndADamagedOneBad) {
  const Bytes bytes = bytesOf(recordOfAllKinds());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(parseRecord(std::span(bytes).first(size)).kind, Parse::kCut) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    const Parse kind = parseRecord(damaged).kind;
    ASSERT_TRUE(kind == Parse::kBad || kind == Parse::kCut) << at;
  }
}

TEST(Record, FieldsOfLaterReleasesArePassedOverOrRefused) {
  for (const std::uint16_t tag : {std::uint16_t{7}, std::uint16_t{7 | 0x8000}}) {
    const Parse expected = tag == 7 ? Parse::kGood : Parse::kLater;
    Bytes bytes = bytesOf(recordOfAllKinds());
    ByteWriter out(bytes);
    out.u16(tag);
    out.u16(2);
    out.u16(1);
    repair(bytes);
    EXPECT_EQ(parseRecord(bytes).kind, expected);
    // In a value.
    Bytes key, value;
    encodeKey(Key::of(AgentId{1}), key);
    encodeValue(Agent{"node", {}}, value);
    ByteWriter field(value);
    field.u16(tag);
    field.u16(0);
    const ParsedRecord parsed = parseRecord(withChange(key, value));
    ASSERT_EQ(parsed.kind, expected);
    if (expected == Parse::kGood) {
      EXPECT_EQ(std::get<Agent>(parsed.record.changes.at(0).value).node, "node");
    }
  }
  Bytes layout = bytesOf({1, 2, {}});
  layout[8] = std::byte{2};
  repair(layout);
  EXPECT_EQ(parseRecord(layout).kind, Parse::kLater);
}

TEST(Record, KeysOfLaterReleasesAreSkippedWhenTheyAreOptional) {
  const Bytes optional{std::byte{kOptionalKind | 50}, std::byte{1}};
  const ParsedRecord parsed = parseRecord(withChange(optional, {}));
  EXPECT_EQ(parsed.kind, Parse::kGood);
  EXPECT_TRUE(parsed.record.changes.empty());
  EXPECT_EQ(parseRawRecord(withChange(optional, {})).changes.size(), 1u);
  const Bytes needed{std::byte{50}, std::byte{1}};
  EXPECT_EQ(parseRecord(withChange(needed, {})).kind, Parse::kLater);
}

TEST(Record, ValuesThatNoReleaseWritesAreBad) {
  const auto kindOf = [](const Key& key, const Value& value) {
    return parseRecord(bytesOf({1, 2, {{key, value}}})).kind;
  };
  const InodeId inode{5};
  const Key entry = Key::ofEntry(inode, 3), content = Key::of(KeyKind::kContent, inode);
  for (const std::string& name : {std::string(), std::string(".."), std::string("a/b"),
                                  std::string("a\0b", 3), std::string(256, 'n')}) {
    EXPECT_EQ(kindOf(entry, Entry{inode, name}), Parse::kBad) << name;
  }
  EXPECT_EQ(kindOf(Key::of(KeyKind::kInode, inode), Inode{.mode = 010000}), Parse::kBad);
  EXPECT_EQ(kindOf(Key::of(KeyKind::kInode, inode), Inode{.kind = Kind{6}}), Parse::kBad);
  EXPECT_EQ(kindOf(Key::of(KeyKind::kTarget, inode), Target{std::string(4096, 't')}), Parse::kBad);
  const ContentVersion version{SessionId{1}, 1};
  EXPECT_EQ(kindOf(content, Content{version, 1, false, {}}), Parse::kBad);
  EXPECT_EQ(
      kindOf(content, Content{version, 1, false, {{SessionId{1}, kAllChunks, 1, AgentId{1}}}}),
      Parse::kBad);
  EXPECT_EQ(kindOf(content, Content{version, 1, false, {{SessionId{1}, 0, 1, kNoAgent}}}),
            Parse::kBad);
  EXPECT_EQ(kindOf(content, Content{{}, 0, false, {}}), Parse::kBad);
  EXPECT_EQ(kindOf(content, Content{version, 0, false, {}}), Parse::kGood);
  // A value of another kind than its key's is too short, too long or out of bounds.
  EXPECT_EQ(kindOf(content, Target{"t"}), Parse::kBad);
}

// The longest one: a rename with the last publish of a file, whose lists leave one another in
// pieces, by a client that had no answer for long.
TEST(Record, TheLongestFits) {
  LedNamespace volume;
  const ClientId a = volume.join(std::string(kMaxNameBytes, 'n')), b = volume.join("b");
  const std::string longName(kMaxNameBytes, 'f');
  const Answer made = volume.ask(a, Create{.place = inRoot(longName), .opens = true});
  Publish first = LedNamespace::publishOf(a, made, 1);
  first.content.runs.clear();
  for (std::uint32_t i = 0; i < kMaxRuns; ++i) {
    first.content.runs.push_back({made.session, 4 * i, 3, a.agent});
  }
  first.content.length = std::uint64_t{3 * kMaxRuns} << 22;
  first.usedChunks = 4 * kMaxRuns;
  ASSERT_EQ(volume.ask(a, first).error, 0);
  const Answer granted = volume.ask(b, OpenForWriting{.inode = made.inode});
  Request request =
      volume.request(b, Rename{.from = inRoot(longName), .to = inRoot("g" + longName.substr(1))});
  Publish last = LedNamespace::publishOf(b, granted, 1);
  last.content.runs.clear();
  for (std::uint32_t i = 0; i < kMaxRuns / 2; ++i) {
    last.content.runs.push_back({made.session, 4 * i + 1, 1, a.agent});
    last.content.runs.push_back({granted.session, 2 * i, 1, b.agent});
  }
  last.content.length = std::uint64_t{kMaxRuns} << 22;
  last.usedChunks = 2 * kMaxRuns;
  std::get<Rename>(request.change).publish = last;
  const std::uint64_t from = request.id.number + 1;
  for (std::uint64_t i = 0; i + 1 < kMaxKeptResults; ++i) {
    const Request other{
        .id = {b, from + i}, .epoch = 1, .doneBelow = from, .change = Unlink{inRoot("x")}};
    ASSERT_EQ(volume.execute(other).error, ENOENT);
  }
  request.id.number = from + kMaxKeptResults - 1;
  request.doneBelow = request.id.number;
  const auto outcome = volume.tree.execute(request);
  ASSERT_EQ(outcome.answer.error, 0);
  const Bytes bytes = bytesOf(*outcome.log);
  EXPECT_GT(bytes.size(), kMaxRecordBytes / 2);
  EXPECT_EQ(parseRecord(bytes).kind, Parse::kGood) << bytes.size();
}

}  // namespace
}  // namespace hearth::tree
