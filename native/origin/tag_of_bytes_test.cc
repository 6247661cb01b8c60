#include "origin/tag_of_bytes.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(TagOfBytes, AreMd5sOfObjectsAndOfTheirParts) {
  EXPECT_TRUE(isTagOfBytes(R"(etag:"5d41402abc4b2a76b9719d911017c592")"));
  EXPECT_TRUE(isTagOfBytes(R"(etag:"5d41402abc4b2a76b9719d911017c592-12")"));
  EXPECT_TRUE(isTagOfBytes(R"(compared-etag:"5d41402abc4b2a76b9719d911017c592")"));
}

TEST(TagOfBytes, AreNotWhatServersGiveFilesThatTheyDidNotWrite) {
  EXPECT_FALSE(isTagOfBytes(R"(etag:"00000000000000000000000000000000")"));
  EXPECT_FALSE(isTagOfBytes(R"(etag:"00000000000000000000000000000000-1")"));
}

TEST(TagOfBytes, AreNothingElse) {
  for (const char* validator :
       {"", "etag:", "etag:\"", "etag:\"\"", "etag:\"1\"", "modified:Thu, 01 Jan 1970 00:00:00 GMT",
        R"(etag:W/"5d41402abc4b2a76b9719d911017c592")",
        R"(etag:"5D41402ABC4B2A76B9719D911017C592")", R"(etag:"5d41402abc4b2a76b9719d911017c592-")",
        R"(etag:"5d41402abc4b2a76b9719d911017c592-1x")",
        R"(etag:"5d41402abc4b2a76b9719d911017c5921")",
        R"(etag:"5d41402abc4b2a76b9719d911017c59")"}) {
    EXPECT_FALSE(isTagOfBytes(validator)) << validator;
  }
}

}  // namespace
}  // namespace hearth
