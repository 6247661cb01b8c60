// Parts of URLs, read by libcurl's own parser so that both see the same host. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace hearth {

// scheme://host[:port]/path: what messages may show. Credentials, query and fragment are secrets.
[[nodiscard]] std::string shownUrl(const std::string& url);

// kInvalidArgument unless it is an absolute http:// or https:// URL.
[[nodiscard]] Status checkUrl(const std::string& url);

// The same scheme, host and port: only then may headers follow a redirect.
[[nodiscard]] bool sameSite(const std::string& a, const std::string& b);

// scheme://host:port, the same text for URLs of the same site; empty for what is no URL.
[[nodiscard]] std::string siteOf(const std::string& url);

// The host's name or address in lower case, without brackets and the dot at its end, and the port.
struct UrlHost {
  std::string name;
  std::string port;
};
// None of what is no URL with a host.
[[nodiscard]] std::optional<UrlHost> hostOf(const std::string& url);

// The URL with the port that its scheme says where it has none; empty for what is no URL.
[[nodiscard]] std::string withPort(const std::string& url);

[[nodiscard]] bool isHttps(const std::string& url);

}  // namespace hearth
