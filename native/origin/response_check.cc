#include "origin/response_check.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace hearth {
namespace {

constexpr std::string_view kEntityTag = "etag:";
constexpr std::string_view kComparedTag = "compared-etag:";
constexpr std::string_view kModified = "modified:";
constexpr std::string_view kHtml = "text/html";

std::string_view trimmed(std::string_view text) {
  const auto isSpace = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && isSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && isSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool sameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "bytes 0-499/1234", "bytes 0-499/*" or "bytes */1234".
struct ContentRange {
  std::optional<std::uint64_t> first, last, total;

  static std::optional<ContentRange> parse(std::string_view text) {
    constexpr std::string_view kUnit = "bytes ";
    if (text.size() < kUnit.size() || !sameName(text.substr(0, kUnit.size()), kUnit))
      return std::nullopt;
    text = trimmed(text.substr(kUnit.size()));
    const std::size_t slash = text.find('/');
    if (slash == text.npos) return std::nullopt;
    ContentRange range;
    const std::string_view total = text.substr(slash + 1);
    range.total = number(total);
    if (!range.total && total != "*") return std::nullopt;
    const std::string_view span = text.substr(0, slash);
    if (span == "*") return range;
    const std::size_t dash = span.find('-');
    if (dash == span.npos) return std::nullopt;
    range.first = number(span.substr(0, dash));
    range.last = number(span.substr(dash + 1));
    if (!range.first || !range.last || *range.last < *range.first) return std::nullopt;
    return range;
  }
};

Error changed(const std::string& shown, const std::string& what) {
  return {
      ErrorCode::kOriginChanged,
      shown + ": " + what +
          "; the object has changed since it was listed: add the dataset again for a new revision"};
}

Status checkSize(std::optional<std::uint64_t> size, std::uint64_t expected,
                 const std::string& shown) {
  if (expected == 0 || !size || *size == expected) return {};
  return changed(
      shown, "it has " + std::to_string(*size) + " bytes instead of " + std::to_string(expected));
}

// Of either kind of validator that is a tag.
std::optional<std::string_view> entityTagOf(std::string_view validator) {
  for (const std::string_view kind : {kEntityTag, kComparedTag}) {
    if (validator.starts_with(kind)) return validator.substr(kind.size());
  }
  return std::nullopt;
}

// Some servers send strong tags without their quotes (RFC 9110, 8.8.3 asks for them).
std::string_view unquoted(std::string_view tag) {
  const bool quoted = tag.size() >= 2 && tag.front() == '"' && tag.back() == '"';
  return quoted ? tag.substr(1, tag.size() - 2) : tag;
}

Status checkValidator(const ResponseHead& head, std::string_view validator,
                      const std::string& shown) {
  const auto compare = [&shown](const char* name, const std::string& now,
                                std::string_view then) -> Status {
    if (now == then) return {};
    if (now.empty()) return changed(shown, std::string("the server no longer sends its ") + name);
    return changed(shown, std::string("its ") + name + " is another");
  };
  if (const auto tag = entityTagOf(validator)) {
    if (unquoted(head.entityTag) == unquoted(*tag) && !head.entityTag.empty()) return {};
    return compare("ETag", head.entityTag, *tag);
  }
  if (validator.starts_with(kModified)) {
    return compare("Last-Modified", head.lastModified, validator.substr(kModified.size()));
  }
  return {};
}

// Busy servers and networks before them answer 200 with a page for people.
bool isForeignPage(const ResponseHead& head, std::uint64_t expected, const std::string& shown) {
  const bool isPage = sameName(std::string_view(head.contentType).substr(0, kHtml.size()), kHtml);
  const bool isWanted = shown.ends_with(".html") || shown.ends_with(".htm");
  return isPage && !isWanted && head.contentLength != expected;
}

// The object is stored so, and its size is that of what is stored; else the server compresses.
bool isStoredEncoded(const ResponseHead& head, std::optional<std::uint64_t> size,
                     std::uint64_t expected) {
  return expected != 0 && (head.status == 206 ? size : head.contentLength) == expected;
}

Error statusError(int status, const std::string& shown, bool expires) {
  const std::string answered = shown + ": the server answered " + std::to_string(status);
  switch (status) {
    case 401:
      if (expires) return {ErrorCode::kLocationExpired, answered + "; the location has expired"};
      return {ErrorCode::kUnauthenticated,
              answered + " (not authorised); give the dataset credentials"};
    case 403:
      if (expires)
        return {ErrorCode::kLocationExpired,
                answered + "; the location has expired or is not allowed"};
      return {ErrorCode::kPermissionDenied,
              answered + " (forbidden); give the dataset credentials that may read it"};
    case 407:
      return {ErrorCode::kUnauthenticated,
              shown +
                  ": the proxy asks for credentials (407); give the agents a user and password "
                  "in HTTP_PROXY"};
    case 404:
    case 410:
      return {ErrorCode::kNotFound,
              answered + "; the object does not exist any more: add the dataset again"};
    case 412:
      return changed(shown, "it no longer matches its ETag or date");
    case 408:
    case 425:
    case 429:
      return {ErrorCode::kUnavailable, answered + " (overloaded or asks to wait)"};
    default:
      break;
  }
  // Not 501 and 505: such a server never gives the object (RFC 9110 15.6), and nobody waits for it.
  if (status >= 500 && status != 501 && status != 505)
    return {ErrorCode::kUnavailable, answered + " (its own failure)"};
  return {ErrorCode::kProtocolError,
          answered + " to a ranged GET; check that the URL names a file"};
}

// Of an answer with status 206: the part that was asked for, of an object of the expected size.
Status checkPart(const ResponseHead& head, const std::optional<ContentRange>& range,
                 const RangeAsked& asked, const OriginExpectation& expectation,
                 const std::string& shown) {
  if (!range || !range->first) {
    return Error{ErrorCode::kProtocolError,
                 shown + ": the server sent a part without saying which (Content-Range)"};
  }
  if (const Status size = checkSize(range->total, expectation.objectSize, shown); !size.ok())
    return size;
  if (*range->first != asked.offset || *range->last - *range->first + 1 != asked.length ||
      (head.contentLength && *head.contentLength != asked.length)) {
    return Error{ErrorCode::kProtocolError, shown +
                                                ": the server sent another range than the one "
                                                "asked for; is a cache or proxy in between?"};
  }
  return {};
}

}  // namespace

void ResponseHead::take(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    const std::size_t space = line.find(' ');
    if (space != line.npos) {
      status = static_cast<int>(number(trimmed(line.substr(space)).substr(0, 3)).value_or(0));
    }
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (sameName(name, "content-range")) contentRange = value;
  if (sameName(name, "etag")) entityTag = value;
  if (sameName(name, "last-modified")) lastModified = value;
  if (sameName(name, "content-encoding")) contentEncoding = value;
  if (sameName(name, "content-type")) contentType = value;
  if (sameName(name, "retry-after")) retryAfter = value;
  if (sameName(name, "content-length")) contentLength = number(value);
}

bool isRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool validatorIsHttp(std::string_view validator) {
  return validator.empty() || entityTagOf(validator) || validator.starts_with(kModified);
}

std::optional<std::string> conditionHeader(std::string_view validator) {
  if (validator.starts_with(kEntityTag)) {
    const std::string_view tag = validator.substr(kEntityTag.size());
    // If-Match compares strongly: a weak tag would never match (RFC 9110 13.1.1).
    if (tag.starts_with("W/")) return std::nullopt;
    return "If-Match: " + std::string(tag);
  }
  if (validator.starts_with(kModified)) {
    return "If-Unmodified-Since: " + std::string(validator.substr(kModified.size()));
  }
  return std::nullopt;
}

Result<BodyPlan> checkResponse(const ResponseHead& head, const RangeAsked& asked,
                               const OriginExpectation& expectation, const std::string& shown,
                               bool expires) {
  const auto range = ContentRange::parse(head.contentRange);
  if (head.status == 416) {
    if (range && range->total) {
      const Status size = checkSize(range->total, expectation.objectSize, shown);
      if (!size.ok()) return size.error();
    }
    return changed(shown, "it does not have the range asked for");
  }
  if (head.status != 200 && head.status != 206) return statusError(head.status, shown, expires);
  if (head.status == 200 && isForeignPage(head, expectation.objectSize, shown)) {
    return Error{ErrorCode::kUnavailable,
                 shown + ": the server sent a page (" + head.contentType +
                     ") instead of the object; it, or a network before it, is busy or asks to "
                     "sign in"};
  }
  const bool isEncoded =
      !head.contentEncoding.empty() && !sameName(head.contentEncoding, "identity") &&
      !isStoredEncoded(head, range ? range->total : std::nullopt, expectation.objectSize);
  const bool isGzipped =
      isEncoded && head.status == 200 &&
      (sameName(head.contentEncoding, "gzip") || sameName(head.contentEncoding, "x-gzip"));
  const std::uint64_t whole = asked.received + asked.length;
  const std::uint64_t start = asked.offset - asked.received;
  const bool isWhole = start == 0 && expectation.objectSize == whole;
  if (isEncoded && !(isGzipped && isWhole)) {
    return Error{ErrorCode::kUnsupported, shown +
                                              ": the server compresses the object although it was "
                                              "asked not to; turn Content-Encoding "
                                              "off there"};
  }
  if (const Status same = checkValidator(head, expectation.validator, shown); !same.ok())
    return same.error();
  if (isGzipped) return BodyPlan{.skip = asked.received, .isGzipped = true};
  if (head.status == 206) {
    if (const Status part = checkPart(head, range, asked, expectation, shown); !part.ok())
      return part.error();
    return BodyPlan{};
  }
  // 200: the whole object, whatever was asked.
  if (const Status size = checkSize(head.contentLength, expectation.objectSize, shown);
      !size.ok()) {
    return size.error();
  }
  const std::uint64_t objectSize =
      expectation.objectSize != 0 ? expectation.objectSize : head.contentLength.value_or(0);
  if (start != 0 || objectSize != whole) {
    return Error{
        ErrorCode::kUnsupported,
        shown +
            ": the server ignores range requests; serve the object from one that supports them, or "
            "copy it to a directory"};
  }
  return BodyPlan{.skip = asked.received};
}

}  // namespace hearth
