// The frames of writes: what of them is refused. Their bytes are in frame_golden_test.cc.
#include <gtest/gtest.h>

#include "wire/frame.h"

namespace hearth {
namespace {

std::span<const std::byte> bytesOf(const std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

TEST(WriteFrames, RefusesWhatMakesNoSense) {
  const auto refused = [](const auto& body) {
    return !decodeBody<std::decay_t<decltype(body)>>(bytesOf(encodeFrame(body))).ok();
  };
  EXPECT_TRUE(refused(WriteRequest{.length = 0}));
  EXPECT_TRUE(refused(WriteRequest{.offset = 1, .length = 1}));
  EXPECT_TRUE(refused(WriteRequest{.offset = kBlockBytes, .length = kChunkBytes}));
  // The bytes belong into that memory and nowhere else.
  const MemoryDescriptor unknown{static_cast<MemoryKind>(77), 1, 1, 1, 1, 1, {}};
  EXPECT_TRUE(refused(WriteRequest{.length = 1, .target = unknown}));
  EXPECT_FALSE(refused(WriteRequest{.length = kChunkBytes}));
  EXPECT_TRUE(refused(WriteData{0, 0, {}}));
  EXPECT_TRUE(refused(WriteData{0, 1, {}}));
  EXPECT_TRUE(refused(WriteData{1, 1, {1}}));
  EXPECT_TRUE(refused(WriteData{kChunkBytes, 1, {1}}));
  EXPECT_FALSE(refused(WriteData{kChunkBytes - kBlockBytes, kBlockBytes, {1}}));
  EXPECT_TRUE(refused(WriteAnswer{ErrorCode::kOk, "x"}));
}

}  // namespace
}  // namespace hearth
