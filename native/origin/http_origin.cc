#include "origin/http_origin.h"

#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "origin/url.h"

namespace hearth {
namespace {

constexpr int kMaxRedirects = 5;
// A fetch that came this much further since its last failure has not been failing in a row.
constexpr std::uint64_t kProgressBytes = std::uint64_t{1} << 20;
// The end of a late sink is noticed so often between attempts.
constexpr auto kNap = std::chrono::milliseconds(100);

std::int64_t nowMs() {
  const auto now = WallClock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Error cancelledError(const std::string& url) {
  return {ErrorCode::kCancelled, shownUrl(url) + ": the read was cancelled"};
}

bool isUnwanted(const Location& location) { return location.unwanted && location.unwanted(); }

}  // namespace

HttpOrigin::HttpOrigin(Reactor& reactor, OriginOptions options, OriginStatistics& statistics)
    : options_(std::move(options)),
      statistics_(statistics),
      retries_(options_.firstBackOff, options_.longestBackOff, std::random_device()()),
      permits_(reactor, options_.connections),
      cancelled_(reactor),
      hosts_(reactor, options_) {}

HttpOrigin::~HttpOrigin() = default;

Result<std::unique_ptr<HttpOrigin>> HttpOrigin::create(Reactor& reactor, OriginOptions options,
                                                       OriginStatistics& statistics) {
  if (options.connections == 0 || options.attempts < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "an origin client needs at least one connection and one attempt"};
  }
  const std::string& authorities = options.certificateAuthorities;
  if (!authorities.empty() && access(authorities.c_str(), R_OK) != 0) {
    Error error = errnoError(errno, "certificateAuthorities: cannot read " + authorities);
    error.code = ErrorCode::kInvalidArgument;
    return error;
  }
  std::unique_ptr<HttpOrigin> origin(new HttpOrigin(reactor, std::move(options), statistics));
  if (origin->options_.forbidPrivateAddresses) {
    auto policy = AddressPolicy::publicAnd(origin->options_.allowedNetworks);
    if (!policy.ok()) return policy.error().within("allowedNetworks");
    origin->addresses_ = std::move(*policy);
  }
  auto proxies = ProxyChoice::create(origin->options_.proxies);
  if (!proxies.ok()) return proxies.error();
  origin->proxies_ = std::move(*proxies);
  const std::size_t connections = origin->options_.connections;
  auto multi = CurlMulti::create(reactor, connections + OriginHosts::hedgePlaces(connections));
  if (!multi.ok()) return multi.error();
  origin->multi_ = std::move(*multi);
  origin->context_.reset(new HttpContext{reactor, *origin->multi_, origin->handles_,
                                         origin->options_, origin->addresses_, origin->proxies_,
                                         statistics});
  return origin;
}

void HttpOrigin::cancelAll() {
  cancelled_.set();
  for (HedgedTransfer* const transfer : running_) transfer->cancel();
}

Task<void> HttpOrigin::close() {
  handles_.clear();
  return multi_->close();
}

Task<HttpOutcome> HttpOrigin::attempt(HttpRequest request, const Location& location,
                                      Clock::duration& left, PieceSink& sink,
                                      const std::function<bool()>& memoryWanted) {
  const std::string& owner = location.owner;
  // The host's first: who waits for a host that takes no more holds no connection of others.
  const std::shared_ptr<OriginHost> host = hosts_.of(request.url);
  co_await host->acquire(owner);
  co_await permits_.acquire(owner);
  const Clock::time_point begin = Clock::now();
  host->begun(begin);
  // Of a late sink the caller sets the pace.
  if (!sink.late()) request.deadline = begin + left;
  request.wantedByOthers = [this, &owner, &host, &memoryWanted] {
    return permits_.wantedByOther(owner) || host->wantedByOther(owner) ||
           (memoryWanted && memoryWanted());
  };
  request.unwanted = location.unwanted;
  HttpOutcome outcome;
  if (cancelled_.isSet() || sink.ended() || isUnwanted(location)) {
    outcome.status = cancelledError(request.url);
  } else if (location.elsewhere && location.elsewhere->wanted && !location.elsewhere->wanted()) {
    location.elsewhere->unasked = true;
    outcome.status = Error{ErrorCode::kUnavailable,
                           shownUrl(request.url) + ": put aside before a connection was free"};
  } else {
    const bool leaves = location.elsewhere && location.elsewhere->leaveStraggler;
    HedgedTransfer transfer(*context_, hosts_, host, std::move(request), leaves, sink);
    const auto position = running_.insert(running_.end(), &transfer);
    if (sink.late()) sink.setStop([&transfer] { transfer.cancel(); });
    outcome = co_await transfer.run();
    sink.setStop(nullptr);
    running_.erase(position);
  }
  const Clock::time_point end = Clock::now();
  permits_.release(owner);
  host->release(owner, end);
  left -= end - begin;
  co_return std::move(outcome);
}

Status HttpOrigin::redirect(Target& target, const std::string& to, int redirects) {
  const std::string from = shownUrl(target.url);
  if (redirects > kMaxRedirects) {
    return Error{
        ErrorCode::kProtocolError,
        from + ": redirected more than " + std::to_string(kMaxRedirects) + " times; check the URL"};
  }
  if (const Status usable = checkUrl(to); !usable.ok()) {
    return Error{ErrorCode::kProtocolError,
                 from + ": the server redirects to what is no http:// or https:// URL"};
  }
  if (isHttps(target.url) && !isHttps(to)) {
    return Error{ErrorCode::kProtocolError, from +
                                                ": redirected from https:// to http://, which "
                                                "would send the bytes unprotected; refused"};
  }
  // Whatever is in the headers was meant for the first host.
  if (!sameSite(target.url, to)) target.headers.clear();
  target.url = to;
  return {};
}

Task<Status> HttpOrigin::fetch(Location location, OriginExpectation expectation,
                               std::uint64_t offset, PieceSink& sink,
                               const std::function<bool()>& memoryWanted) {
  if (Status usable = checkUrl(location.url); !usable.ok()) co_return usable;
  const Target first{location.url, location.headers};
  Target target = first;
  int redirects = 0;
  int failures = 0;
  std::uint64_t atLastFailure = 0;
  Clock::duration left = options_.runTimeout;
  if (location.elsewhere) left = std::min(left, location.elsewhere->left);
  while (sink.remaining() > 0) {
    if (cancelled_.isSet() || sink.ended() || isUnwanted(location))
      co_return cancelledError(location.url);
    if (location.expiresAtMs != 0 && location.expiresAtMs <= nowMs()) {
      co_return Error{ErrorCode::kLocationExpired,
                      shownUrl(location.url) + ": the location has expired"};
    }
    HttpRequest request{.url = target.url,
                        .headers = target.headers,
                        .expiresAtMs = location.expiresAtMs,
                        .expectation = expectation,
                        .range = {.offset = offset + sink.received(),
                                  .length = sink.remaining(),
                                  .received = sink.received()},
                        .impatient = location.elsewhere && location.elsewhere->impatient};
    const HttpOutcome outcome =
        co_await attempt(std::move(request), location, left, sink, memoryWanted);
    if (location.elsewhere) {
      location.elsewhere->left = left;
      location.elsewhere->retryAfter = outcome.retryAfter;
    }
    if (outcome.status.ok()) {
      if (outcome.redirect.empty()) continue;
      Status followed = redirect(target, outcome.redirect, ++redirects);
      if (!followed.ok()) co_return followed;
      continue;
    }
    if (outcome.yielded) {
      ++statistics_.retries;
      if (sink.late() || (memoryWanted && memoryWanted())) co_return outcome.status;
      continue;
    }
    if (outcome.status.code() == ErrorCode::kTryElsewhere && !sink.late()) {
      location.elsewhere->straggled = true;
      co_return Error{ErrorCode::kUnavailable, outcome.status.error().message};
    }
    if (outcome.status.code() != ErrorCode::kUnavailable) co_return outcome.status;
    if (sink.received() - atLastFailure >= kProgressBytes) failures = 0;
    atLastFailure = sink.received();
    if (location.elsewhere) co_return outcome.status;
    if (++failures >= options_.attempts) {
      Error error = outcome.status.error();
      error.message += "; gave up after " + std::to_string(failures) + " attempts";
      co_return error;
    }
    ++statistics_.retries;
    // The target of a redirect may be what failed or expired: begin again.
    target = first;
    redirects = 0;
    const Clock::duration delay = retries_.delay(failures, outcome.retryAfter);
    left -= delay;
    const Clock::time_point until = Clock::now() + delay;
    while (Clock::now() < until && !cancelled_.isSet() && !sink.ended() && !isUnwanted(location)) {
      co_await cancelled_.waitUntil(sink.late() ? std::min(until, Clock::now() + kNap) : until);
    }
  }
  co_return Status();
}

}  // namespace hearth
