#include "holder/holder_protocol.h"

#include <gtest/gtest.h>

#include <random>

#include "base/byte_codec.h"
#include "holder/holder_fields.h"

namespace hearth {
namespace {

HolderRequest sample(HolderRequestKind kind) {
  HolderRequest request;
  request.kind = kind;
  request.sequence = 77;
  request.owner = "node-a";
  request.continues = true;
  request.target = "/mnt/models";
  request.source = "llama";
  request.options = {"context=system_u:object_r:container_file_t:s0", "fscontext=x"};
  request.flags = kHolderWritable;
  request.readAheadKiB = 4096;
  request.blob = std::string("\0digest", 7);
  request.state = "state";
  request.epoch = 3;
  request.minor = 45;
  request.force = true;
  request.name = "arena";
  request.bytes = 1ULL << 40;
  request.generation = 9;
  request.backingId = 5;
  request.position = 2;
  if (kind == HolderRequestKind::kHello) {
    request.hello = HolderHello{.release = "1.2.3", .instance = 42};
  }
  return request;
}

std::vector<HolderRequestKind> allKinds() {
  std::vector<HolderRequestKind> kinds;
  for (unsigned kind = 1; kind <= 17; ++kind) kinds.push_back(static_cast<HolderRequestKind>(kind));
  return kinds;
}

// A message as another release makes it.
std::vector<std::byte> foreign(std::uint16_t version, std::uint16_t kind,
                               const std::vector<std::byte>& body) {
  ByteWriter out;
  out.u32(kHolderMagic);
  out.u16(version);
  out.u16(kind);
  out.u32(static_cast<std::uint32_t>(kHolderHeaderBytes + body.size()));
  out.u32(7);
  out.bytes(body);
  return out.take();
}

std::vector<std::byte> unknownField(std::uint16_t tag) {
  ByteWriter out;
  out.u16(tag);
  out.u32(3);
  out.bytes(std::as_bytes(std::span("new", 3)));
  return out.take();
}

TEST(HolderProtocol, RequestsComeBackAsTheyWere) {
  for (const HolderRequestKind kind : allKinds()) {
    const auto bytes = encode(sample(kind));
    const auto decoded = decodeHolderRequest(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->unsupported, "");
    EXPECT_EQ(decoded->kind, kind);
    EXPECT_EQ(encode(*decoded), bytes);
  }
  const auto mount = decodeHolderRequest(encode(sample(HolderRequestKind::kMount)));
  EXPECT_EQ(mount->blob.size(), 7U);
  EXPECT_EQ(mount->readAheadKiB, 4096U);
  EXPECT_EQ(mount->options.size(), 2U);
  EXPECT_EQ(mount->bytes, 1ULL << 40);
}

TEST(HolderProtocol, RepliesComeBackAsTheyWere) {
  HolderReply reply;
  reply.sequence = 5;
  reply.count = 3;
  reply.record = HolderRecord{"/mnt", "s", "o", 4, 45, true, true, 12, "blob", "state", 1};
  reply.memory = HolderMemory{"o", "arena", 77, 3, 1};
  reply.hello = HolderHello{.release = "0.1.0", .instance = 9};
  const auto decoded = decodeHolderReply(encode(reply));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->record->epoch, 4U);
  EXPECT_TRUE(decoded->record->aborted);
  EXPECT_EQ(decoded->record->state, "state");
  EXPECT_EQ(decoded->memory->generation, 3U);
  EXPECT_EQ(decoded->hello->features, kHolderFeatures);
  EXPECT_EQ(encode(*decoded), encode(reply));
}

TEST(HolderProtocol, FieldsOfNewerReleasesAreSkipped) {
  auto body = unknownField(4000);
  const auto request = decodeHolderRequest(foreign(kHolderVersion, 1, body));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->unsupported, "");
  const auto reply = decodeHolderReply(foreign(kHolderVersion, 0x8000, body));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->code, ErrorCode::kOk);
  // More words of features than we have.
  HolderFieldWriter more;
  more.words(HolderField::kFeatures, std::array<std::uint64_t, 4>{1, 2, 3, 4});
  const auto hello = decodeHolderRequest(foreign(kHolderVersion, 7, more.bytes()));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->hello->features, (HolderFeatures{1, 2}));
  EXPECT_EQ(hello->hello->newestVersion, 0) << "what was not said is not assumed";
}

TEST(HolderProtocol, WhatCannotBeDoneIsSaidAndNotRefusedAsGarbage) {
  const auto kind = decodeHolderRequest(foreign(kHolderVersion, 999, {}));
  ASSERT_TRUE(kind.ok());
  EXPECT_NE(kind->unsupported.find("kind 999"), std::string::npos);
  EXPECT_EQ(kind->sequence, 7U);
  const auto version = decodeHolderRequest(foreign(kHolderVersion + 1, 1, {}));
  ASSERT_TRUE(version.ok());
  EXPECT_NE(version->unsupported.find("version 3"), std::string::npos);
  const auto field =
      decodeHolderRequest(foreign(kHolderVersion, 3, unknownField(kHolderRequiredTag | 4000)));
  ASSERT_TRUE(field.ok());
  EXPECT_NE(field->unsupported, "");
  HolderRequest flags = sample(HolderRequestKind::kMount);
  flags.flags = 1U << 7;
  EXPECT_NE(decodeHolderRequest(encode(flags))->unsupported, "");
  HolderFieldWriter code;
  code.number(HolderField::kCode, 60000);
  EXPECT_EQ(decodeHolderReply(foreign(kHolderVersion, 0x8000, code.bytes()))->code,
            ErrorCode::kInternal);
}

TEST(HolderProtocol, MissingFeaturesHaveNames) {
  EXPECT_EQ(missingFeatures(kHolderFeatures, kHolderFeatures), "");
  EXPECT_EQ(
      missingFeatures(kHolderFeatures, {kHolderRegisters, 0}),
      "hand-over, memory, backing, options, writable, socket, users, touch, folders, deadlines");
}

TEST(HolderProtocol, OptionsThatAMountMayHave) {
  EXPECT_TRUE(allowedMountOption("context=system_u:object_r:x_t:s0").ok());
  EXPECT_EQ(allowedMountOption("fd=3").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(allowedMountOption("dev").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(allowedMountOption("context=a,dev").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(allowedMountOption("context=a\"b").code(), ErrorCode::kInvalidArgument);
}

TEST(HolderProtocol, RefusesEveryTruncation) {
  for (const HolderRequestKind kind : allKinds()) {
    auto bytes = encode(sample(kind));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decodeHolderRequest(std::span(bytes).first(size)).code(),
                ErrorCode::kProtocolError);
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decodeHolderRequest(bytes).ok());
    bytes[8] = static_cast<std::byte>(bytes.size() & 0xff);
    bytes[9] = static_cast<std::byte>(bytes.size() >> 8);
    EXPECT_FALSE(decodeHolderRequest(bytes).ok()) << "a field that is cut off";
  }
}

TEST(HolderProtocol, RefusesFieldsThatAreTooLong) {
  HolderRequest request = sample(HolderRequestKind::kMount);
  request.target = "/" + std::string(kMaxHolderPath, 'x');
  EXPECT_FALSE(decodeHolderRequest(encode(request)).ok());
  request = sample(HolderRequestKind::kMount);
  request.target = std::string("/a\0b", 4);
  EXPECT_FALSE(decodeHolderRequest(encode(request)).ok());
  request = sample(HolderRequestKind::kMount);
  request.options.assign(kMaxHolderOptions + 1, "context=x");
  EXPECT_FALSE(decodeHolderRequest(encode(request)).ok());
}

TEST(HolderProtocol, SurvivesGarbage) {
  std::mt19937 random(1);
  const auto kinds = allKinds();
  for (int round = 0; round < 20000; ++round) {
    auto bytes = encode(sample(kinds[random() % kinds.size()]));
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    const auto decoded = decodeHolderRequest(bytes);
    if (decoded.ok() && decoded->unsupported.empty()) {
      EXPECT_TRUE(decodeHolderRequest(encode(*decoded)).ok());
    }
    (void)decodeHolderReply(bytes).ok();
  }
}

}  // namespace
}  // namespace hearth
