// Ranged reads over HTTP(S): attempts, back-off, redirects and the bound on parallel requests.
// Private to this room. Reactor's thread only.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "origin/fair_permits.h"
#include "origin/hedged_transfer.h"
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

  // `sink` begins at `offset` of the object. It and `memoryWanted`, and the errors: as
  // OriginClient::fetch; both remain live until the task has ended.
  [[nodiscard]] Task<Status> fetch(Location location, OriginExpectation expectation,
                                   std::uint64_t offset, PieceSink& sink,
                                   const std::function<bool()>& memoryWanted);
  // Makes all fetches end with kCancelled.
  void cancelAll();
  [[nodiscard]] std::vector<OriginHostStatistics> hosts() const { return hosts_.statistics(); }
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
  Task<HttpOutcome> attempt(HttpRequest request, const Location& location, Clock::duration& left,
                            PieceSink& sink, const std::function<bool()>& memoryWanted);
  static Status redirect(Target& target, const std::string& to, int redirects);

  const OriginOptions options_;
  OriginStatistics& statistics_;
  AddressPolicy addresses_;
  ProxyChoice proxies_;
  std::unique_ptr<CurlMulti> multi_;
  std::unique_ptr<HttpContext> context_;
  RetryPolicy retries_;
  FairPermits permits_;  // one a request, besides that of its host
  Event cancelled_;
  EasyHandles handles_;
  OriginHosts hosts_;
  std::list<HedgedTransfer*> running_;
};

}  // namespace hearth
