// Ranged reads over HTTP(S): attempts, back-off, redirects and the bound on parallel requests.
// Private to this room. Reactor's thread only.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "origin/fair_permits.h"
#include "origin/http_exchange.h"
#include "origin/retry_policy.h"
#include "reactor/synchronization.h"

namespace hearth {

class HttpOrigin {
 public:
  // `reactor` and `statistics` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<HttpOrigin>> create(Reactor& reactor,
                                                                  OriginOptions options,
                                                                  OriginStatistics& statistics);
  // After close().
  ~HttpOrigin();

  // `sink` begins at `offset` of the object. Errors as OriginClient::fetch.
  [[nodiscard]] Task<Status> fetch(Location location, OriginExpectation expectation,
                                   std::uint64_t offset, PieceSink& sink);
  // Makes all fetches end with kCancelled.
  void cancelAll();
  // After all fetches have ended.
  [[nodiscard]] Task<void> close();

 private:
  HttpOrigin(Reactor& reactor, OriginOptions options, OriginStatistics& statistics);

  // One location, with what redirects have made of it.
  struct Target {
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
  };

  // `left`: time that the fetch may still spend; what this one has taken is taken off.
  Task<HttpOutcome> attempt(HttpRequest request, const std::string& owner, Clock::duration& left,
                            PieceSink& sink);
  static Status redirect(Target& target, const std::string& to, int redirects);

  const OriginOptions options_;
  OriginStatistics& statistics_;
  AddressPolicy addresses_;
  std::unique_ptr<CurlMulti> multi_;
  std::unique_ptr<HttpContext> context_;
  RetryPolicy retries_;
  FairPermits permits_;  // one a request
  Event cancelled_;
  std::vector<CurlEasy> idle_;  // easy handles, kept for their TLS sessions and buffers
  std::list<HttpExchange*> running_;
};

}  // namespace hearth
