#include "origin/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <optional>

namespace hearth {
namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using ParsedUrl = std::unique_ptr<CURLU, UrlDeleter>;

ParsedUrl parse(const std::string& text) {
  ParsedUrl url(curl_url());
  if (url == nullptr) return nullptr;
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_PATH_AS_IS) != CURLUE_OK)
    return nullptr;
  return url;
}

std::optional<std::string> part(const ParsedUrl& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return std::nullopt;
  std::string copy(text);
  curl_free(text);
  return copy;
}

std::string inLowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  return text;
}

}  // namespace

std::string shownUrl(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  if (parsed == nullptr) return "(malformed URL)";
  std::string shown = part(parsed, CURLUPART_SCHEME).value_or("") + "://" +
                      part(parsed, CURLUPART_HOST).value_or("");
  if (const auto port = part(parsed, CURLUPART_PORT)) shown += ":" + *port;
  return shown + part(parsed, CURLUPART_PATH).value_or("");
}

Status checkUrl(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  // The text itself is not shown: what cannot be parsed cannot be redacted.
  if (parsed == nullptr) {
    return Error{
        ErrorCode::kInvalidArgument,
        "a location's URL is malformed; it must be like https://host/path with special characters "
        "percent-encoded"};
  }
  const std::string scheme = part(parsed, CURLUPART_SCHEME).value_or("");
  if (scheme == "http" || scheme == "https") return {};
  return Error{ErrorCode::kInvalidArgument,
               shownUrl(url) + ": only http:// and https:// can be read, not " + scheme + "://"};
}

std::string siteOf(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  if (parsed == nullptr) return {};
  const auto scheme = part(parsed, CURLUPART_SCHEME);
  const auto host = part(parsed, CURLUPART_HOST);
  const auto port = part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (!scheme || !host || !port) return {};
  return inLowerCase(*scheme + "://" + *host + ":" + *port);
}

std::optional<UrlHost> hostOf(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  if (parsed == nullptr) return std::nullopt;
  const auto host = part(parsed, CURLUPART_HOST);
  const auto port = part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  if (!host || !port) return std::nullopt;
  std::string name = inLowerCase(*host);
  if (name.starts_with('[')) name = name.substr(1, name.size() - 2);
  while (name.ends_with('.')) name.pop_back();
  return UrlHost{std::move(name), *port};
}

bool sameSite(const std::string& a, const std::string& b) {
  const std::string first = siteOf(a);
  return !first.empty() && first == siteOf(b);
}

std::string withPort(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  if (parsed == nullptr) return {};
  return part(parsed, CURLUPART_URL, CURLU_DEFAULT_PORT).value_or("");
}

bool isHttps(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  return parsed != nullptr && part(parsed, CURLUPART_SCHEME) == "https";
}

}  // namespace hearth
