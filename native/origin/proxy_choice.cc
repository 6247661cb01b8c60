#include "origin/proxy_choice.h"

#include <algorithm>
#include <cctype>

#include "origin/url.h"

namespace hearth {
namespace {

const std::string kDirectly;

// With its scheme; empty stays empty.
Result<std::string> proxyUrl(const char* variable, const std::string& text) {
  if (text.empty()) return std::string();
  const std::string url = text.find("://") == text.npos ? "http://" + text : text;
  if (!checkUrl(url).ok() || !hostOf(url)) {
    return Error{
        ErrorCode::kInvalidArgument,
        std::string(variable) +
            " is not the URL of an HTTP proxy; write it like http://proxy.example.com:3128"};
  }
  // libcurl would take 1080, others take what the scheme says.
  return withPort(url);
}

bool isDigits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// `name` is `domain` or lies below it.
bool isWithin(const std::string& name, const std::string& domain) {
  if (!name.ends_with(domain)) return false;
  return name.size() == domain.size() || name[name.size() - domain.size() - 1] == '.';
}

bool isLoopback(const std::string& host) {
  static const Network four = *Network::parse("127.0.0.0/8");
  static const Network six = *Network::parse("::1");
  const auto address = addressOfHost(host);
  if (!address) return isWithin(host, "localhost");
  return four.contains(*address) || six.contains(*address);
}

}  // namespace

Result<ProxyChoice> ProxyChoice::create(const ProxyOptions& options) {
  ProxyChoice choice;
  Result<std::string> http = proxyUrl("HTTP_PROXY", options.http);
  if (!http.ok()) return http.error();
  Result<std::string> https = proxyUrl("HTTPS_PROXY", options.https);
  if (!https.ok()) return https.error();
  choice.http_ = std::move(*http);
  choice.https_ = std::move(*https);
  std::string item;
  for (const char c : options.none + ",") {
    if (c != ',' && std::isspace(static_cast<unsigned char>(c)) == 0) {
      item += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (item == "*") choice.isNever_ = true;
    if (!item.empty()) choice.exceptions_.push_back(parseException(std::move(item)));
    item.clear();
  }
  return choice;
}

ProxyChoice::Exception ProxyChoice::parseException(std::string text) {
  Exception exception;
  exception.network = Network::parse(text);
  if (exception.network) return exception;
  // One colon begins a port, more are an IPv6 address, which has a port only behind its bracket.
  const std::size_t colon = text.rfind(':');
  const bool hasPort = colon != text.npos && isDigits(text.substr(colon + 1)) &&
                       (text.find(':') == colon || text[colon - 1] == ']');
  if (hasPort) {
    exception.port = text.substr(colon + 1);
    text.resize(colon);
  }
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  exception.network = Network::parse(text);
  if (text.starts_with("*.")) text.erase(0, 1);
  while (text.starts_with('.')) text.erase(0, 1);
  while (text.ends_with('.')) text.pop_back();
  exception.name = std::move(text);
  return exception;
}

const std::string& ProxyChoice::of(const std::string& url) const {
  const std::string& proxy = isHttps(url) ? https_ : http_;
  if (proxy.empty()) return proxy;
  const auto host = hostOf(url);
  if (!host || isNever_ || isLoopback(host->name) || isException(host->name, host->port)) {
    return kDirectly;
  }
  return proxy;
}

bool ProxyChoice::isException(const std::string& host, const std::string& port) const {
  const auto address = addressOfHost(host);
  return std::any_of(exceptions_.begin(), exceptions_.end(), [&](const Exception& exception) {
    if (!exception.port.empty() && exception.port != port) return false;
    if (address) return exception.network && exception.network->contains(*address);
    return !exception.name.empty() && isWithin(host, exception.name);
  });
}

Error proxyRefusal(const std::string& shown, const std::string& proxy, long status) {
  const std::string refused = shown + ": the proxy " + siteOf(proxy) +
                              " did not connect to this host (it answered " +
                              std::to_string(status) + ")";
  if (status == 407) {
    return {ErrorCode::kUnauthenticated,
            refused + "; give the agents a user and password in HTTPS_PROXY"};
  }
  if (status >= 500 || status == 429 || status == 408) {
    return {ErrorCode::kUnavailable,
            refused + "; check the proxy, or list the host in NO_PROXY of the agents"};
  }
  return {ErrorCode::kPermissionDenied,
          refused + "; allow the host at the proxy, or list it in NO_PROXY of the agents"};
}

}  // namespace hearth
