// Judges if an HTTP response may be used for a range of an object, and names the error otherwise.
// Pure: nothing here knows libcurl. Sources: RFC 9110 (conditions 13, ranges 14, status codes 15).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "origin/origin_client.h"

namespace hearth {

// The range that a request asked for.
struct RangeAsked {
  std::uint64_t offset = 0;  // of the first byte still missing
  std::uint64_t length = 0;  // still missing, > 0
  // The bytes of the whole fetch before `offset`, which came by earlier requests.
  std::uint64_t received = 0;
};

struct ResponseHead {
  int status = 0;
  std::string contentRange, entityTag, lastModified, contentEncoding, contentType, retryAfter;
  std::optional<std::uint64_t> contentLength;

  // Takes one header line ("Name: value\r\n"), or the status line, which begins a new head.
  void take(std::string_view line);
};

struct BodyPlan {
  // Bytes at the start of the body to drop: the server sent the whole object where a later part was
  // asked.
  std::uint64_t skip = 0;
  // The body is the whole object, gzipped although it was asked for as it is.
  bool isGzipped = false;
};

// `shown`: the URL as messages may show it; `expires`: the location has an expiry.
[[nodiscard]] Result<BodyPlan> checkResponse(const ResponseHead& head, const RangeAsked& asked,
                                             const OriginExpectation& expectation,
                                             const std::string& shown, bool expires);

// The request header of a validator: "If-Match: ..." or "If-Unmodified-Since: ...", or nothing: a
// compared-etag: belongs to a server that refuses the condition, so only the answer is compared.
[[nodiscard]] std::optional<std::string> conditionHeader(std::string_view validator);

// Empty (nothing to compare), etag:, compared-etag: or modified:. Anything else could not be
// compared and must be refused.
[[nodiscard]] bool validatorIsHttp(std::string_view validator);

// Any of the statuses that lead elsewhere by a Location header.
[[nodiscard]] bool isRedirect(int status);

}  // namespace hearth
