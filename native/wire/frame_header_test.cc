// The header of a frame: what of it may differ in other releases, and what may not.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/crc32c.h"
#include "wire/frame.h"

namespace hearth {
namespace {

std::vector<std::byte> withHeaderByte(std::vector<std::byte> frame, std::size_t at,
                                      std::uint8_t value) {
  frame[at] = static_cast<std::byte>(value);
  const std::uint32_t checksum = crc32c(std::span(frame).first(28));
  for (unsigned i = 0; i < 4; ++i) {
    frame[28 + i] = static_cast<std::byte>((checksum >> (8 * i)) & 0xff);
  }
  return frame;
}

TEST(FrameHeader, LowFlagsAreIgnoredAndHighOnesMustBeUnderstood) {
  const std::vector<std::byte> frame = encodeFrame(Credit{1, 1});
  EXPECT_TRUE(decodeHeader(withHeaderByte(frame, 8, 0xfe)).ok());
  EXPECT_EQ(decodeHeader(withHeaderByte(frame, 11, 0x80)).code(), ErrorCode::kUnsupported);
}

TEST(FrameHeader, UnknownTypesArePassedOverWhenTheirSenderAllowsIt) {
  const std::vector<std::byte> unknown =
      withHeaderByte(encodeEmptyFrame(FrameType::kPing, 7), 6, 200);
  EXPECT_EQ(decodeHeader(unknown).code(), ErrorCode::kProtocolError);
  const Result<FrameHeader> skipped = decodeHeader(withHeaderByte(unknown, 8, kSkippable));
  ASSERT_TRUE(skipped.ok());
  EXPECT_TRUE(skipped->unknown);
  // Of a later version, too.
  EXPECT_TRUE(decodeHeader(withHeaderByte(withHeaderByte(unknown, 8, kSkippable), 4, 9)).ok());
  EXPECT_FALSE(decodeHeader(encodeEmptyFrame(FrameType::kPing, 7))->unknown);
}

TEST(FrameHeader, AnotherVersionIsUnsupportedExceptForRefuse) {
  const auto withVersion = [](const std::vector<std::byte>& frame, std::uint8_t version) {
    return withHeaderByte(frame, 4, version);
  };
  EXPECT_TRUE(decodeHeader(withVersion(encodeFrame(Preface{}), kWireVersion)).ok());
  for (const std::uint8_t other : {kOldestWireVersion - 1, kWireVersion + 1}) {
    EXPECT_EQ(decodeHeader(withVersion(encodeFrame(Preface{}), other)).code(),
              ErrorCode::kUnsupported);
  }
  EXPECT_TRUE(decodeHeader(withVersion(encodeFrame(Refuse{ErrorCode::kUnsupported, "v"}), 9)).ok());
}

TEST(FrameHeader, RandomBytesNeverPass) {
  std::mt19937_64 random(20261121);
  for (int i = 0; i < 20000; ++i) {
    std::array<std::uint64_t, 8> noise;
    for (std::uint64_t& word : noise) word = random();
    EXPECT_FALSE(decodeHeader(std::as_bytes(std::span(noise))).ok());
  }
}

}  // namespace
}  // namespace hearth
