#include "fuse/fuse_init.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

fuse_init_in kernel(std::uint32_t minor, std::uint64_t flags) {
  fuse_init_in in{};
  in.major = 7;
  in.minor = minor;
  in.max_readahead = 1U << 17;
  in.flags = static_cast<std::uint32_t>(flags);
  in.flags2 = static_cast<std::uint32_t>(flags >> 32);
  return in;
}

TEST(FuseInit, TakesWhatTheKernelOffersAndWeWant) {
  const auto answer = negotiate(kernel(41, ~0ULL), kReadOnlyFlags | kFusePassthrough);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->negotiated.passthrough());
  EXPECT_TRUE(answer->negotiated.resend());
  EXPECT_NE(answer->negotiated.flags & kFuseAllowIdmap, 0U);
  EXPECT_EQ(answer->out.maxPages, 256);
  EXPECT_EQ(answer->out.maxStackDepth, 1U);
  EXPECT_EQ(answer->out.flags & FUSE_WRITEBACK_CACHE, 0U);
  EXPECT_EQ(answer->out.flags & FUSE_AUTO_INVAL_DATA, 0U);
}

TEST(FuseInit, PassthroughCanBeTurnedOff) {
  const auto answer = negotiate(kernel(41, ~0ULL), kReadOnlyFlags);
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->negotiated.passthrough());
  EXPECT_EQ(answer->out.maxStackDepth, 0U);
}

TEST(FuseInit, IgnoresTheSecondWordWhereTheKernelHasNone) {
  const auto answer =
      negotiate(kernel(35, ~std::uint64_t{FUSE_INIT_EXT}), kReadOnlyFlags | kFusePassthrough);
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->negotiated.passthrough());
  EXPECT_EQ(answer->out.flags2, 0U);
}

TEST(FuseInit, RefusesOldKernels) {
  EXPECT_EQ(negotiate(kernel(30, ~0ULL), kReadOnlyFlags | kFusePassthrough).code(),
            ErrorCode::kUnsupported);
  fuse_init_in newer = kernel(0, 0);
  newer.major = 8;
  const auto answer = negotiate(newer, kReadOnlyFlags | kFusePassthrough);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->out.major, 7U);
}

TEST(FuseInit, StateComesBackAsItWas) {
  const FuseNegotiated negotiated{41, kFusePassthrough | kFuseHasResend | 5};
  EXPECT_EQ(decodeNegotiated(encodeNegotiated(negotiated)), negotiated);
  EXPECT_FALSE(decodeNegotiated(""));
  EXPECT_FALSE(decodeNegotiated("something else!!"));
  EXPECT_FALSE(decodeNegotiated(encodeNegotiated(negotiated) + "x"));
}

}  // namespace
}  // namespace hearth
