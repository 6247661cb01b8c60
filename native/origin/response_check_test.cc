#include "origin/response_check.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

ResponseHead headOf(std::initializer_list<std::string_view> lines) {
  ResponseHead head;
  for (const std::string_view line : lines) head.take(line);
  return head;
}

TEST(ResponseHead, TakesTheLastResponseAndIgnoresCase) {
  const ResponseHead head = headOf({"HTTP/1.1 100 Continue\r\n", "ETag: \"interim\"\r\n", "\r\n",
                                    "HTTP/1.1 206\r\n", "CONTENT-RANGE:bytes 0-9/10\r\n",
                                    "content-length:  10 \r\n", "nonsense\r\n", "\r\n"});
  EXPECT_EQ(head.status, 206);
  EXPECT_EQ(head.entityTag, "");
  EXPECT_EQ(head.contentRange, "bytes 0-9/10");
  EXPECT_EQ(head.contentLength, 10u);
}

TEST(ResponseHead, SurvivesMalformedLines) {
  EXPECT_EQ(headOf({"HTTP/1.1\r\n"}).status, 0);
  EXPECT_EQ(headOf({"HTTP/1.1 abc\r\n"}).status, 0);
  EXPECT_EQ(headOf({"HTTP/1.1 200 OK\r\n", ":\r\n", "", "Content-Length: -1\r\n"}).contentLength,
            std::nullopt);
}

// The code of a 206 with this Content-Range, asked for bytes 100-199 of an object of 1000 bytes.
ErrorCode codeFor(std::string_view contentRange) {
  ResponseHead head;
  head.status = 206;
  head.contentRange = contentRange;
  return checkResponse(head, {.offset = 100, .length = 100}, {.objectSize = 1000}, "u", false)
      .code();
}

TEST(ResponseCheck, ComparesContentRange) {
  EXPECT_EQ(codeFor("bytes 100-199/1000"), ErrorCode::kOk);
  EXPECT_EQ(codeFor("Bytes 100-199/*"), ErrorCode::kOk);
  EXPECT_EQ(codeFor("bytes 100-199/999"), ErrorCode::kOriginChanged);
  for (const char* const wrong :
       {"", "bytes", "bytes 100-199", "bytes */1000", "bytes 100/1000", "bytes 199-100/1000",
        "bytes -199/1000", "bytes 100-199/", "bytes 100-199/x", "bytes 0-99/1000",
        "bytes 100-198/1000", "bytes 100-200/1000", "bytes 99999999999999999999-199/1000",
        "bytes 0-18446744073709551615/1000", "items 100-199/1000"}) {
    EXPECT_EQ(codeFor(wrong), ErrorCode::kProtocolError) << wrong;
  }
}

TEST(ResponseCheck, UsesOnlyStrongTagsAsConditions) {
  EXPECT_EQ(conditionHeader("etag:\"a\""), "If-Match: \"a\"");
  EXPECT_EQ(conditionHeader("etag:W/\"a\""), std::nullopt);
  EXPECT_EQ(conditionHeader("compared-etag:\"a\""), std::nullopt);
  EXPECT_EQ(conditionHeader("modified:Sun, 06 Nov 1994 08:49:37 GMT"),
            "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(conditionHeader(""), std::nullopt);
  EXPECT_TRUE(validatorIsHttp(""));
  EXPECT_FALSE(validatorIsHttp("stat:1:2"));
}

TEST(ResponseCheck, ComparesTagsWithOrWithoutTheirQuotes) {
  for (const char* const validator : {"etag:\"a\"", "compared-etag:\"a\""}) {
    const auto codeOf = [validator](std::string tag) {
      ResponseHead head;
      head.status = 200;
      head.entityTag = std::move(tag);
      return checkResponse(head, {.offset = 0, .length = 10}, {10, validator}, "u", false).code();
    };
    EXPECT_EQ(codeOf("\"a\""), ErrorCode::kOk) << validator;
    EXPECT_EQ(codeOf("a"), ErrorCode::kOk) << validator;
    for (const char* const other : {"", "\"\"", "\"b\"", "b", "W/\"a\"", "\"a"})
      EXPECT_EQ(codeOf(other), ErrorCode::kOriginChanged) << validator << " " << other;
  }
}

TEST(ResponseCheck, TakesAPageForAFailureThatPasses) {
  ResponseHead head;
  head.status = 200;
  head.contentType = "text/HTML; charset=utf-8";
  head.contentLength = 1469;
  const RangeAsked asked{.offset = 0, .length = 100};
  const auto codeOf = [&](const OriginExpectation& expected, const std::string& url) {
    return checkResponse(head, asked, expected, url, false).code();
  };
  EXPECT_EQ(codeOf({1000, "etag:\"a\""}, "http://h/model.bin"), ErrorCode::kUnavailable);
  EXPECT_EQ(codeOf({1000, {}}, "http://h/index.html"), ErrorCode::kOriginChanged);
  EXPECT_EQ(codeOf({1469, "etag:\"a\""}, "http://h/model.bin"), ErrorCode::kOriginChanged);
}

TEST(ResponseCheck, SkipsWhatIsAlreadyThereOfAWholeObject) {
  ResponseHead head;
  head.status = 200;
  const RangeAsked rest{.offset = 600, .length = 400, .received = 600};
  const auto plan = checkResponse(head, rest, {.objectSize = 1000}, "u", false);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->skip, 600u);
  EXPECT_EQ(checkResponse(head, rest, {.objectSize = 1001}, "u", false).code(),
            ErrorCode::kUnsupported);
  EXPECT_EQ(checkResponse(head, rest, {}, "u", false).code(), ErrorCode::kUnsupported);
  head.contentLength = 1000;
  EXPECT_TRUE(checkResponse(head, rest, {}, "u", false).ok());
  EXPECT_EQ(checkResponse(head, rest, {.objectSize = 999}, "u", false).code(),
            ErrorCode::kOriginChanged);
}

}  // namespace
}  // namespace hearth
