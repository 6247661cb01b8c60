// Through which proxy an origin is asked: the rules of the variables HTTP_PROXY, HTTPS_PROXY and
// NO_PROXY, as curl and Go read them. Immutable: any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "origin/network.h"

namespace hearth {

struct ProxyOptions {
  // Of requests to http:// and to https:// URLs: "http://[user:password@]host:port", also https://,
  // or "host:port". Empty: none.
  std::string http;
  std::string https;
  // Hosts that are asked directly, separated by commas or blanks: "*", "example.com" (it and all
  // names below it, as ".example.com" and "*.example.com"), "10.0.0.0/8", "fd00::1"; each but
  // networks with ":port" perhaps.
  std::string none;
};

class ProxyChoice {
 public:
  // No proxy for any URL.
  ProxyChoice() = default;
  // kInvalidArgument names the variable of a proxy that cannot be used, without its password.
  [[nodiscard]] static Result<ProxyChoice> create(const ProxyOptions& options);

  // The proxy for a request to `url`, with its credentials; empty: the host is asked directly.
  // "localhost", names below it and loopback addresses always are.
  [[nodiscard]] const std::string& of(const std::string& url) const;

 private:
  struct Exception {
    std::string name;  // also of the names below it
    std::optional<Network> network;
    std::string port;  // empty: any
  };

  [[nodiscard]] static Exception parseException(std::string text);
  [[nodiscard]] bool isException(const std::string& host, const std::string& port) const;

  std::string http_;
  std::string https_;
  bool isNever_ = false;
  std::vector<Exception> exceptions_;
};

// A proxy's refusal to connect to the host of `shown`, an origin's URL without secrets, with the
// status that it answered to CONNECT.
[[nodiscard]] Error proxyRefusal(const std::string& shown, const std::string& proxy, long status);

}  // namespace hearth
