// The bytes of every message between agents and hearth-holder, of version 2. If they change,
// kHolderVersion must: a holder of the release before has to understand them. A first line is the
// header (magic, version, kind, length, sequence); each one after it is a field.
#include <gtest/gtest.h>

#include <set>

#include "base/byte_codec.h"
#include "base/testing/golden_bytes.h"
#include "holder/holder_fields.h"
#include "holder/holder_protocol.h"

namespace hearth {
namespace {

using testing_support::bytesOfHex;
using testing_support::expectGolden;
using testing_support::hexOf;
using Kind = HolderRequestKind;

// Fields of a later release: one that may be skipped, and one that has to be known.
constexpr std::uint16_t kLaterTag = 4000;
constexpr std::uint16_t kLaterRequiredTag = kHolderRequiredTag | kLaterTag;

HolderHello greeting() { return {.release = "0.1.0", .instance = 42}; }

// The message with one more field.
std::vector<std::byte> withLaterField(std::string_view hex, std::uint16_t tag) {
  std::vector<std::byte> bytes = bytesOfHex(hex);
  ByteWriter out(bytes);
  out.u16(tag);
  out.u32(3);
  out.bytes(std::as_bytes(std::span("new", 3)));
  for (std::size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<std::byte>(bytes.size() >> 8 * i);
  return bytes;
}

// Tags in the golden bytes, also of fields that have fields.
void collectTags(std::span<const std::byte> body, std::set<std::uint16_t>& tags) {
  HolderFieldReader fields(body);
  while (const auto field = fields.next()) {
    tags.insert(field->tag);
    const bool nested =
        field->field() == HolderField::kMount || field->field() == HolderField::kMemory;
    if (nested) collectTags(field->value, tags);
  }
}

class HolderGolden : public testing::Test {
 protected:
  // A request of the value's kind: these bytes; the same where a later release says more; not
  // understood where it says what has to be.
  bool expectRequest(std::string_view hex, HolderRequest value) {
    value.sequence = 7;
    expectGolden(
        hex, value, [](const HolderRequest& each) { return encode(each); }, decodeHolderRequest);
    const auto known = decodeHolderRequest(bytesOfHex(hex));
    const auto later = decodeHolderRequest(withLaterField(hex, kLaterTag));
    const auto required = decodeHolderRequest(withLaterField(hex, kLaterRequiredTag));
    EXPECT_TRUE(known && known->unsupported.empty() && known->kind == value.kind) << hex;
    EXPECT_TRUE(later && later->unsupported.empty() && hexOf(encode(*later)) == hex) << hex;
    EXPECT_TRUE(required && !required->unsupported.empty()) << hex;
    collectTags(bytesOfHex(hex.substr(2 * kHolderHeaderBytes)), tags_);
    return true;
  }
  void expectReply(std::string_view hex, HolderReply value) {
    value.sequence = 7;
    expectGolden(
        hex, value, [](const HolderReply& each) { return encode(each); }, decodeHolderReply);
    const auto later = decodeHolderReply(withLaterField(hex, kLaterTag));
    EXPECT_TRUE(later && hexOf(encode(*later)) == hex) << hex;
    EXPECT_EQ(decodeHolderReply(withLaterField(hex, kLaterRequiredTag)).code(),
              ErrorCode::kProtocolError);
    collectTags(bytesOfHex(hex.substr(2 * kHolderHeaderBytes)), tags_);
  }
  bool expectMounts(Kind kind);
  bool expectPassing(Kind kind);
  bool expectMemory(Kind kind);
  bool expectRequestOf(Kind kind);
  void expectReplies();

  std::set<std::uint16_t> tags_;
};

// Of mounts.
bool HolderGolden::expectMounts(Kind kind) {
  switch (kind) {
    case Kind::kTake:
      return expectRequest(
          "48454844020002001c00000007000000"
          "0200060000002f6d6e742f61",
          {.kind = kind, .target = "/mnt/a"});
    case Kind::kMount:
      return expectRequest(
          "48454844020003007000000007000000"
          "0200060000002f6d6e742f61"
          "0300050000006c6c616d61"
          "040009000000636f6e746578743d61"
          "04000b0000006673636f6e746578743d62"
          "0500080000000100000000000000"
          "0600080000000010000000000000"
          "07000700000000646967657374",
          {.kind = kind,
           .target = "/mnt/a",
           .source = "llama",
           .options = {"context=a", "fscontext=b"},
           .flags = kHolderWritable,
           .readAheadKiB = 4096,
           .blob = std::string("\0digest", 7)});
    case Kind::kSaveState:
      return expectRequest(
          "48454844020004002600000007000000"
          "0200060000002f6d6e742f61"
          "080004000000696e6974",
          {.kind = kind, .target = "/mnt/a", .state = "init"});
    case Kind::kUnmount:
      return expectRequest(
          "48454844020005002a00000007000000"
          "0200060000002f6d6e742f61"
          "0900080000000100000000000000",
          {.kind = kind, .target = "/mnt/a", .force = true});
    case Kind::kList:
      return expectRequest(
          "48454844020006001c00000007000000"
          "0200060000002f6d6e742f61",
          {.kind = kind, .target = "/mnt/a"});
    default:
      return false;
  }
}

// Of mounts, with descriptors of the client.
bool HolderGolden::expectPassing(Kind kind) {
  switch (kind) {
    case Kind::kRegister:
      return expectRequest(
          "48454844020008006800000007000000"
          "0200060000002f6d6e742f61"
          "0300050000006c6c616d61"
          "0500080000000100000000000000"
          "07000700000000646967657374"
          "080004000000696e6974"
          "0b00080000000300000000000000"
          "0c00080000002d00000000000000",
          {.kind = kind,
           .target = "/mnt/a",
           .source = "llama",
           .flags = kHolderWritable,
           .blob = std::string("\0digest", 7),
           .state = "init",
           .epoch = 3,
           .minor = 45});
    case Kind::kOpenBacking:
      return expectRequest(
          "4845484402000f001c00000007000000"
          "0200060000002f6d6e742f61",
          {.kind = kind, .target = "/mnt/a"});
    case Kind::kCloseBacking:
      return expectRequest(
          "48454844020010002a00000007000000"
          "0200060000002f6d6e742f61"
          "1000080000000500000000000000",
          {.kind = kind, .target = "/mnt/a", .backingId = 5});
    default:
      return false;
  }
}

// Of memory.
bool HolderGolden::expectMemory(Kind kind) {
  switch (kind) {
    case Kind::kKeepMemory:
      return expectRequest(
                 "4845484402000b003700000007000000"
                 "0d00050000006172656e61"
                 "0e00080000000000000000010000"
                 "0f00080000000900000000000000",
                 {.kind = kind, .name = "arena", .bytes = 1ULL << 40, .generation = 9}) &&
             expectRequest(
                 "4845484402000b004e00000007000000"
                 "0d00050000006172656e61"
                 "0e00080000000010000000000000"
                 "0f00080000000100000000000000"
                 "2400080000000100000000000000"
                 "2500030000006f6666",
                 {.kind = kind,
                  .name = "arena",
                  .bytes = 4096,
                  .generation = 1,
                  .folder = true,
                  .noHugePages = "off"});
    case Kind::kTakeMemory:
      return expectRequest(
          "4845484402000c001b00000007000000"
          "0d00050000006172656e61",
          {.kind = kind, .name = "arena"});
    case Kind::kListMemory:
      return expectRequest(
          "4845484402000d001b00000007000000"
          "0d00050000006172656e61",
          {.kind = kind, .name = "arena"});
    case Kind::kTouchMemory:
      return expectRequest(
          "48454844020012003700000007000000"
          "0d00050000006172656e61"
          "0e00080000000000001000000000"
          "2100080000000000004000000000",
          {.kind = kind, .name = "arena", .bytes = 1ULL << 28, .offset = 1ULL << 30});
    case Kind::kOpenFolder:
      return expectRequest(
          "48454844020013002900000007000000"
          "0d000500000066696c6573"
          "0e00080000000000000000010000",
          {.kind = kind, .name = "files", .bytes = 1ULL << 40});
    case Kind::kTouchFile:
      return expectRequest(
          "48454844020014003700000007000000"
          "0d000500000066696c6573"
          "0e00080000000000001000000000"
          "2100080000000000004000000000",
          {.kind = kind, .name = "files", .bytes = 1ULL << 28, .offset = 1ULL << 30});
    case Kind::kDropMemory:
      return expectRequest(
          "4845484402000e001b00000007000000"
          "0d00050000006172656e61",
          {.kind = kind, .name = "arena"});
    default:
      return false;
  }
}

// False for a number that is none. The compiler wants a case here for each request.
bool HolderGolden::expectRequestOf(Kind kind) {
  switch (kind) {
    case Kind::kAttach:
      return expectRequest(
          "48454844020001002a00000007000000"
          "0100060000006e6f64652d61"
          "0a00080000000100000000000000",
          {.kind = kind, .owner = "node-a", .continues = true});
    case Kind::kHello:
      return expectRequest(
          "48454844020007005b00000007000000"
          "1200080000000200000000000000"
          "1300080000000200000000000000"
          "140010000000ff070000000000000000000000000000"
          "150005000000302e312e30"
          "1600080000002a00000000000000",
          {.kind = kind, .hello = greeting()});
    case Kind::kHandOver:
      return expectRequest(
          "48454844020009001e00000007000000"
          "1100080000000200000000000000",
          {.kind = kind, .position = 2});
    case Kind::kHandOverDone:
      return expectRequest("4845484402000a001000000007000000", {.kind = kind});
    case Kind::kHandOverSocket:
      return expectRequest("48454844020011001000000007000000", {.kind = kind});
    case Kind::kTake:
    case Kind::kMount:
    case Kind::kSaveState:
    case Kind::kUnmount:
    case Kind::kList:
      return expectMounts(kind);
    case Kind::kRegister:
    case Kind::kOpenBacking:
    case Kind::kCloseBacking:
      return expectPassing(kind);
    case Kind::kKeepMemory:
    case Kind::kTakeMemory:
    case Kind::kListMemory:
    case Kind::kDropMemory:
    case Kind::kTouchMemory:
    case Kind::kOpenFolder:
    case Kind::kTouchFile:
      return expectMemory(kind);
  }
  return false;
}

void HolderGolden::expectReplies() {
  expectReply("48454844020000801000000007000000", {});
  expectReply(
      "48454844020000802600000007000000"
      "1700080000000300000000000000"
      "1800020000006e6f",
      {.code = ErrorCode::kNotFound, .message = "no"});
  expectReply(
      "48454844020000801e00000007000000"
      "1900080000000300000000000000",
      {.count = 3});
  expectReply(
      "48454844020000801e00000007000000"
      "1000080000000500000000000000",
      {.backingId = 5});
  expectReply(
      "48454844020000801600000007000000"
      "1a0000000000",
      {.record = HolderRecord{}});
  expectReply(
      "4845484402000080a100000007000000"
      "1a008b000000"
      "0200060000002f6d6e742f61"
      "0300050000006c6c616d61"
      "0100060000006e6f64652d61"
      "0b00080000000400000000000000"
      "0c00080000002d00000000000000"
      "1c00080000000100000000000000"
      "1d00080000000100000000000000"
      "1e00080000000c00000000000000"
      "070004000000626c6f62"
      "080004000000696e6974"
      "0500080000000100000000000000",
      {.record =
           HolderRecord{"/mnt/a", "llama", "node-a", 4, 45, true, true, 12, "blob", "init", 1}});
  expectReply(
      "48454844020000805700000007000000"
      "1b0041000000"
      "0100060000006e6f64652d61"
      "0d00050000006172656e61"
      "0e00080000004d00000000000000"
      "0f00080000000300000000000000"
      "1e00080000000100000000000000",
      {.memory = HolderMemory{"node-a", "arena", 77, 3, 1}});
  expectReply(
      "48454844020000806500000007000000"
      "1b004f000000"
      "0100060000006e6f64652d61"
      "0d00050000006172656e61"
      "0e00080000004d00000000000000"
      "1c00080000000100000000000000"
      "1f00080000000100000000000000"
      "2200080000000100000000000000",
      {.memory = HolderMemory{"node-a", "arena", 77, 0, 0, true, true, true}});
  expectReply(
      "48454844020000806000000007000000"
      "1b004a000000"
      "0100060000006e6f64652d61"
      "0d000500000066696c6573"
      "0e00080000004d00000000000000"
      "2200080000000100000000000000"
      "2400080000000100000000000000"
      "2500030000006f6666",
      {.memory = HolderMemory{"node-a", "files", 77, 0, 0, false, false, true, true, "off"}});
  expectReply(
      "48454844020000801e00000007000000"
      "2300080000000000200000000000",
      {.hugeBytes = 2U << 20});
  HolderHello touching = greeting();
  touching.touchBytes = 1ULL << 30;
  expectReply(
      "48454844020000806900000007000000"
      "1200080000000200000000000000"
      "1300080000000200000000000000"
      "140010000000ff070000000000000000000000000000"
      "150005000000302e312e30"
      "1600080000002a00000000000000"
      "2000080000000000004000000000",
      {.hello = touching});
  expectReply(
      "48454844020000805b00000007000000"
      "1200080000000200000000000000"
      "1300080000000200000000000000"
      "140010000000ff070000000000000000000000000000"
      "150005000000302e312e30"
      "1600080000002a00000000000000",
      {.hello = greeting()});
}

TEST_F(HolderGolden, BytesOfEveryMessageAndField) {
  std::vector<unsigned> requests;
  for (unsigned kind = 0; kind < 256; ++kind) {
    if (expectRequestOf(static_cast<Kind>(kind))) requests.push_back(kind);
  }
  EXPECT_EQ(requests, (std::vector<unsigned>{1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                             11, 12, 13, 14, 15, 16, 17, 18, 19, 20}));
  expectReplies();
  std::set<std::uint16_t> fields;
  for (std::uint16_t tag = 1; tag <= 37; ++tag) fields.insert(tag);
  EXPECT_EQ(tags_, fields);
}

// An absent field is zero or empty: the holder understands a request of fewer fields.
TEST_F(HolderGolden, RequestsWithoutFields) {
  for (unsigned kind = 1; kind <= 20; ++kind) {
    if (kind == static_cast<unsigned>(Kind::kHello)) continue;  // its features are always there
    std::vector<std::byte> bare = bytesOfHex("48454844020000001000000007000000");
    bare[6] = static_cast<std::byte>(kind);
    const auto decoded = decodeHolderRequest(bare);
    ASSERT_TRUE(decoded) << kind;
    EXPECT_EQ(decoded->unsupported, "") << kind;
    EXPECT_EQ(encode(*decoded), bare) << kind;
  }
  const auto hello = decodeHolderRequest(bytesOfHex("48454844020007001000000007000000"));
  ASSERT_TRUE(hello && hello->hello);
  EXPECT_EQ(hello->hello->newestVersion, 0);
}

}  // namespace
}  // namespace hearth
