#include "origin/http_exchange.h"

#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <system_error>

#include "base/clock.h"
#include "origin/pace_window.h"
#include "origin/refusal_words.h"
#include "origin/retry_policy.h"
#include "origin/url.h"

namespace hearth {
namespace {

// Code of the S3 API for a signature whose time is more than 15 minutes off.
constexpr std::string_view kSkewed = "RequestTimeTooSkewed";

// One read from the socket: the most that libcurl takes. Measured on loopback with 8 MiB requests:
// 0.20 CPU s/GiB on one connection, against 0.34 with 128 KiB and 0.41 with 64 KiB
// (origin_throughput_main.cc).
constexpr long kReceiveBytes = 512 * 1024;
constexpr std::size_t kMaxHeadBytes = 256 * 1024;
constexpr auto kLookForOthers = std::chrono::milliseconds(250);
// Of an error's body: what is read so that the connection can be kept, and what is looked at.
constexpr std::uint64_t kMaxRefusalBytes = 64 * 1024;
constexpr std::size_t kKeptRefusalBytes = 1024;

bool hasLineBreak(const std::string& text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos;
}

void useFreshConnection(CURL* easy) {
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
  curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
}

Error addressError(const std::string& shown) {
  return {ErrorCode::kPermissionDenied,
          shown +
              ": its address is loopback, link-local or private, and such origins are not allowed; "
              "list the network if it is meant to be reachable"};
}

bool isReset(CURLcode code) {
  return code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR || code == CURLE_GOT_NOTHING;
}

}  // namespace

HttpExchange::HttpExchange(HttpContext& context, HttpRequest request, PieceSink& sink)
    : context_(context),
      request_(std::move(request)),
      shown_(shownUrl(request_.url)),
      proxy_(context.proxies.of(request_.url)),
      sink_(sink),
      writer_(sink, request_.range.received, request_.range.received + request_.range.length),
      easy_(context.handles.take()),
      transfer_(context.reactor, easy_.get()) {}

HttpExchange::~HttpExchange() {
  context_.multi.finish(transfer_);
  context_.handles.giveBack(std::move(easy_));
  curl_slist_free_all(headerList_);
}

void HttpExchange::cancel() {
  cancelled_ = true;
  transfer_.ended.set();
}

void HttpExchange::giveUpSlow() {
  slow_ = true;
  transfer_.ended.set();
}

Clock::duration HttpExchange::shortened(Clock::duration usual) const {
  return request_.impatient ? std::min<Clock::duration>(usual, OriginElsewhere::kTimeout) : usual;
}

void HttpExchange::addHeader(const std::string& line) {
  headerList_ = curl_slist_append(headerList_, line.c_str());
}

// HTTP/1.1 also over TLS: parallel ranged reads gain from connections of their own, where the
// streams of one HTTP/2 connection share a congestion window and a flow-control window. Measured
// over TLS on loopback, 8 MiB requests: 0.76 CPU s/GiB against 0.84 with HTTP/2, and never slower.
Status HttpExchange::configure() {
  CURL* const easy = transfer_.easy;
  const auto option = [easy](CURLoption name, auto value) { curl_easy_setopt(easy, name, value); };
  const auto ms = [](Clock::duration time) {
    return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  const OriginOptions& options = context_.options;
  curl_easy_reset(easy);
  option(CURLOPT_URL, request_.url.c_str());
  option(CURLOPT_PATH_AS_IS, 1L);  // a signature may cover the path byte by byte
  option(CURLOPT_PROTOCOLS_STR, "http,https");
  option(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  option(CURLOPT_FOLLOWLOCATION,
         0L);  // redirects are followed by HttpOrigin, which drops credentials
  option(CURLOPT_NOSIGNAL, 1L);
  option(CURLOPT_QUICK_EXIT, 1L);  // giving up during a name look-up must not wait for it
  option(CURLOPT_BUFFERSIZE, kReceiveBytes);
  option(CURLOPT_CONNECTTIMEOUT_MS, std::max(1L, ms(shortened(options.connectTimeout))));
  option(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  option(CURLOPT_USERAGENT, "hearth");
  option(CURLOPT_ERRORBUFFER, curlMessage_);
  if (!options.certificateAuthorities.empty()) {
    option(CURLOPT_CAINFO, options.certificateAuthorities.c_str());
    option(CURLOPT_CAPATH, static_cast<char*>(nullptr));  // that file and no other
  }
  if (Status usable = configureProxy(); !usable.ok()) return usable;
  if (request_.hedge) useFreshConnection(easy);
  option(CURLOPT_OPENSOCKETFUNCTION, &HttpExchange::openSocket);
  option(CURLOPT_OPENSOCKETDATA, this);
  option(CURLOPT_CLOSESOCKETFUNCTION, &CurlMulti::closeSocket);
  option(CURLOPT_CLOSESOCKETDATA, &context_.multi);
  option(CURLOPT_HEADERFUNCTION, &HttpExchange::takeHeader);
  option(CURLOPT_HEADERDATA, this);
  option(CURLOPT_WRITEFUNCTION, &HttpExchange::takeBody);
  option(CURLOPT_WRITEDATA, this);

  const std::uint64_t last = request_.range.offset + request_.range.length - 1;
  const std::string range = std::to_string(request_.range.offset) + "-" + std::to_string(last);
  option(CURLOPT_RANGE, range.c_str());  // copied
  for (const auto& [name, value] : request_.headers) {
    if (name.empty() || hasLineBreak(name) || hasLineBreak(value) || name.find(':') != name.npos) {
      return Error{
          ErrorCode::kInvalidArgument,
          shown_ + ": a header of the location is malformed (a line break or colon in it)"};
    }
    addHeader(value.empty() ? name + ";" : name + ": " + value);
  }
  if (hasLineBreak(request_.expectation.validator)) {
    return Error{ErrorCode::kInvalidArgument, shown_ + ": the validator contains a line break"};
  }
  if (!validatorIsHttp(request_.expectation.validator)) {
    return Error{ErrorCode::kInvalidArgument, shown_ +
                                                  ": the validator is not one of HTTP (etag:..., "
                                                  "compared-etag:... or modified:...); list the "
                                                  "origin again"};
  }
  if (const auto condition = conditionHeader(request_.expectation.validator)) addHeader(*condition);
  addHeader("Accept-Encoding: identity");
  option(CURLOPT_HTTPHEADER, headerList_);
  return {};
}

// libcurl itself reads nothing of the environment. A proxy is the administrator's choice, so its
// own address may be any; it looks names up, so of an origin behind it only written addresses can
// be judged here.
Status HttpExchange::configureProxy() {
  CURL* const easy = transfer_.easy;
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy_.c_str());
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
  if (proxy_.empty()) return {};
  const std::string& authorities = context_.options.certificateAuthorities;
  if (!authorities.empty()) {
    curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, authorities.c_str());
    curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, static_cast<char*>(nullptr));
  }
  const auto host = hostOf(request_.url);
  if (host && context_.addresses.allowsHost(host->name)) return {};
  return addressError(shown_);
}

Task<HttpOutcome> HttpExchange::run() {
  if (Status status = configure(); !status.ok()) co_return HttpOutcome{.status = std::move(status)};
  const OriginOptions& options = context_.options;
  context_.multi.start(transfer_);
  PaceWindow stall(shortened(options.stallTimeout), options.stallBytesPerSecond);
  PaceWindow floor(options.floorTimeout, options.floorBytesPerSecond);
  for (;;) {
    // A late transfer may take as long as its object is large: it leaves when others wait.
    const bool looks = sink_.late() || request_.unwanted;
    const Clock::time_point look = looks ? Clock::now() + kLookForOthers : Clock::time_point::max();
    if (co_await transfer_.ended.waitUntil(
            std::min({stall.end(), floor.end(), request_.deadline, look})))
      break;
    cancelled_ = cancelled_ || (request_.unwanted && request_.unwanted());
    if (cancelled_) break;
    overdue_ = Clock::now() >= request_.deadline;
    stalled_ = stall.tooSlow(bodyBytes_);
    const bool slow = options.floorBytesPerSecond != 0 && floor.tooSlow(bodyBytes_);
    yielded_ = (slow || sink_.late()) && request_.wantedByOthers && request_.wantedByOthers();
    // A late transfer has no deadline. The caller asks for the rest by requests that have one.
    if (slow && sink_.late()) slow_ = true;
    if (overdue_ || stalled_ || yielded_ || slow_) break;
  }
  context_.multi.finish(transfer_);
  HttpOutcome result = outcome();
  result.answer = head_.status;
  result.reset = !cancelled_ && isReset(transfer_.result) && refusedByProxy() == 0;
  co_return result;
}

std::size_t HttpExchange::takeHeader(char* data, std::size_t size, std::size_t count, void* self) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  const std::size_t bytes = size * count;
  exchange.headBytes_ += bytes;
  if (!exchange.answeredAt_) exchange.answeredAt_ = Clock::now();
  if (exchange.headBytes_ > kMaxHeadBytes || exchange.cancelled_) return 0;
  if (!exchange.plan_) exchange.head_.take({data, bytes});  // later ones are trailers
  return bytes;
}

std::size_t HttpExchange::takeBody(char* data, std::size_t size, std::size_t count, void* self) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  const std::size_t bytes = size * count;
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const bool pauses = exchange.plan_ && exchange.plan_->ok() && exchange.sink_.full();
  if (pauses && !exchange.cancelled_) {
    ++exchange.pauses_;
    exchange.sink_.awaitRoom([&exchange] { exchange.context_.multi.resume(exchange.transfer_); });
    return CURL_WRITEFUNC_PAUSE;
  }
  if (exchange.cancelled_ || !exchange.body({begin, bytes})) return CURL_WRITEFUNC_ERROR;
  return bytes;
}

void HttpExchange::checkHead() {
  if (plan_) return;
  plan_ =
      checkResponse(head_, request_.range, request_.expectation, shown_, request_.expiresAtMs != 0);
  if (!plan_->ok()) return;
  writer_.rewind((**plan_).skip);
  if ((**plan_).isGzipped) gzip_ = std::make_unique<GzipBody>();
  if (gzip_ && sink_.late()) {
    plan_ = Error{ErrorCode::kUnsupported, shown_ + ": the server compresses the object"};
  }
  if (request_.hedge && (**plan_).skip > 0) {
    plan_ = Error{ErrorCode::kUnsupported, shown_ + ": more would come twice than was asked for"};
  }
}

// False breaks the transfer off.
bool HttpExchange::body(std::span<const std::byte> bytes) {
  checkHead();
  bodyBytes_ += bytes.size();
  if (!plan_->ok()) {
    const std::size_t kept = std::min(bytes.size(), kKeptRefusalBytes - refusal_.size());
    refusal_.append(reinterpret_cast<const char*>(bytes.data()), kept);
    return bodyBytes_ <= kMaxRefusalBytes;
  }
  if (!gzip_) return object(bytes);
  if (!gzip_->add(bytes, [this](std::span<const std::byte> plain) { return object(plain); }))
    return false;
  if (gzip_->state() != GzipBody::State::kMalformed) return true;
  plan_ = Error{ErrorCode::kProtocolError, shown_ + ": the server sent malformed gzip data"};
  return false;
}

// As body(), with bytes of the object.
bool HttpExchange::object(std::span<const std::byte> bytes) {
  context_.statistics.bytes += bytes.size();
  if (request_.hedge) context_.statistics.hedgedBytes += bytes.size();
  objectBytes_ += bytes.size();
  if (request_.came) request_.came(bytes.size());
  if (bytes.size() > writer_.remaining()) {
    plan_ =
        Error{ErrorCode::kProtocolError, shown_ + ": the server sent more bytes than asked for"};
    return false;
  }
  return writer_.write(bytes);
}

curl_socket_t HttpExchange::openSocket(void* self, curlsocktype /*purpose*/,
                                       curl_sockaddr* address) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  if (exchange.proxy_.empty() && !exchange.context_.addresses.allows(&address->addr)) {
    exchange.addressRefused_ = true;
    return CURL_SOCKET_BAD;
  }
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool HttpExchange::complete() const {
  return writer_.done() && plan_ && (!gzip_ || gzip_->state() == GzipBody::State::kEnded);
}

HttpOutcome HttpExchange::outcome() {
  if (cancelled_)
    return {.status = Error{ErrorCode::kCancelled, shown_ + ": the read was cancelled"}};
  const bool answered = head_.status >= 200;
  if (answered && isRedirect(head_.status)) {
    const char* target = nullptr;
    curl_easy_getinfo(transfer_.easy, CURLINFO_REDIRECT_URL, &target);
    if (target != nullptr) return {.redirect = target};
  }
  if (answered && transfer_.result == CURLE_OK) checkHead();
  if (plan_ && !plan_->ok()) {
    Error error = plan_->error();
    const std::string words = refusalWords(withoutHeaderValues(refusal_, request_.headers));
    if (head_.status >= 400 && !words.empty()) error.message += " (" + words + ")";
    const std::string code = errorCodeOf(refusal_);
    if (code == "ExpiredToken" && request_.expiresAtMs != 0)
      error.code = ErrorCode::kLocationExpired;
    // The next location has the server's time, or somebody sets a clock.
    if (code == kSkewed) {
      error.code =
          request_.expiresAtMs != 0 ? ErrorCode::kLocationExpired : ErrorCode::kUnavailable;
      error.message = shown_ + ": the server refuses the time of the signature (" + words +
                      "): its clock and that of the agents differ; set them (NTP)";
    }
    HttpOutcome refused{.status = std::move(error)};
    refused.retryAfter = RetryPolicy::parseRetryAfter(head_.retryAfter, WallClock::now());
    return refused;
  }
  if (complete()) return {};
  if (transfer_.result != CURLE_OK) return {.status = transferError(transfer_.result)};
  const std::string came =
      std::to_string(sink_.received()) + " of " + std::to_string(sink_.total());
  if (slow_) {
    return {.status = Error{ErrorCode::kTryElsewhere,
                            shown_ + ": slow (" + pace() + "), and others are faster"}};
  }
  if (yielded_) {
    return {.status = Error{ErrorCode::kTryElsewhere,
                            shown_ + ": slow (" + pace() + "), and others wait"},
            .yielded = true};
  }
  if (overdue_) {
    return {.status = Error{ErrorCode::kDeadlineExceeded,
                            shown_ + ": the origin is too slow (" + pace() +
                                "); check its network and its limits of rate"}};
  }
  if (stalled_) {
    return {.status = Error{ErrorCode::kUnavailable,
                            shown_ + ": the transfer stalled after " + came + " bytes"}};
  }
  return {.status = Error{ErrorCode::kUnavailable,
                          shown_ + ": the answer ended after " + came + " bytes"}};
}

std::string HttpExchange::pace() const {
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  const double rate = static_cast<double>(bodyBytes_) / 1024 / std::max(seconds, 1e-3);
  char text[32];
  std::snprintf(text, sizeof text, "%.1f KiB/s", rate);
  return std::string(text) + ", " + std::to_string(sink_.received()) + " of " +
         std::to_string(sink_.total()) + " bytes";
}

// Why the connection failed, in the system's words.
std::string HttpExchange::systemError() const {
  long number = 0;
  curl_easy_getinfo(transfer_.easy, CURLINFO_OS_ERRNO, &number);
  if (number == 0) return curl_easy_strerror(transfer_.result);
  return std::generic_category().message(static_cast<int>(number));
}

long HttpExchange::refusedByProxy() const {
  long status = 0;
  if (!proxy_.empty()) curl_easy_getinfo(transfer_.easy, CURLINFO_HTTP_CONNECTCODE, &status);
  return status >= 200 && status < 300 ? 0 : status;
}

Error HttpExchange::transferError(CURLcode code) const {
  if (const long status = refusedByProxy(); status != 0) {
    return proxyRefusal(shown_, proxy_, status);
  }
  const std::string reason = curl_easy_strerror(code);
  const std::string detail = curlMessage_[0] != '\0' ? curlMessage_ : reason;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {ErrorCode::kUnavailable,
              shown_ + ": the host name cannot be resolved; check the name and DNS"};
    case CURLE_COULDNT_CONNECT:
      if (addressRefused_) return addressError(shown_);
      return {ErrorCode::kUnavailable,
              shown_ + ": no connection" +
                  (proxy_.empty() ? "" : " to the proxy " + siteOf(proxy_)) + ": " + systemError() +
                  "; check that the server runs and can be reached"};
    case CURLE_COULDNT_RESOLVE_PROXY:
      return {ErrorCode::kUnavailable,
              shown_ + ": the name of the proxy " + siteOf(proxy_) +
                  " cannot be resolved; check HTTP_PROXY and HTTPS_PROXY of the agents"};
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return {ErrorCode::kUnauthenticated,
              shown_ + ": the server's certificate is not trusted (" + detail +
                  "); set certificateAuthorities to a file with the authority that signed it"};
    case CURLE_SSL_CACERT_BADFILE:
      return {ErrorCode::kInvalidArgument,
              "certificateAuthorities: " + context_.options.certificateAuthorities +
                  " cannot be used: " + reason};
    case CURLE_URL_MALFORMAT:
      return {ErrorCode::kInvalidArgument, shown_ + ": the URL is malformed"};
    case CURLE_WRITE_ERROR:
      if (headBytes_ > kMaxHeadBytes)
        return {ErrorCode::kProtocolError, shown_ + ": the answer's header is too long"};
      return {ErrorCode::kUnavailable, shown_ + ": the transfer was broken off"};
    case CURLE_UNSUPPORTED_PROTOCOL:  // HTTP/0.9: the scheme was checked before
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_FUNCTION_ARGUMENT:
      return {ErrorCode::kProtocolError,
              shown_ + ": the server does not speak HTTP/1 (" + reason + ")"};
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
      return {ErrorCode::kInternal, shown_ + ": libcurl failed: " + reason};
    default:
      return {ErrorCode::kUnavailable, shown_ + ": the transfer failed after " +
                                           std::to_string(sink_.received()) + " of " +
                                           std::to_string(sink_.total()) + " bytes: " + reason};
  }
}

}  // namespace hearth
