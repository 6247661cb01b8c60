// One HTTP request for one range and what came of it. Private to this room. Reactor's thread only.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "origin/address_policy.h"
#include "origin/curl_multi.h"
#include "origin/easy_handles.h"
#include "origin/gzip_body.h"
#include "origin/origin_client.h"
#include "origin/piece_sink.h"
#include "origin/proxy_choice.h"
#include "origin/response_check.h"

namespace hearth {

// The same for all exchanges of a client, which outlives them.
struct HttpContext {
  Reactor& reactor;
  CurlMulti& multi;
  EasyHandles& handles;
  const OriginOptions& options;
  const AddressPolicy& addresses;
  const ProxyChoice& proxies;
  OriginStatistics& statistics;
};

struct HttpRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::int64_t expiresAtMs = 0;  // of the location
  OriginExpectation expectation;
  RangeAsked range;
  Clock::time_point deadline = Clock::time_point::max();
  std::function<bool()> wantedByOthers;     // its connection or memory; may be null
  std::function<bool()> unwanted;           // as Location::unwanted
  std::function<void(std::uint64_t)> came;  // bytes of the object, as they come; may be null
  // Asks for what another transfer was asked for: on a connection of its own, to an address that is
  // looked up for it, since the server behind the other's may be what is slow.
  bool hedge = false;
  // Of a location with other places: see OriginElsewhere.
  bool impatient = false;
};

struct HttpOutcome {
  // Ok when all bytes came or `redirect` is set. kUnavailable: another attempt may succeed.
  Status status;
  std::string redirect;  // absolute URL
  std::optional<Clock::duration> retryAfter;
  bool yielded = false;  // it was slow, and others wait: no failure
  int answer = 0;        // the status code; 0: none came
  bool reset = false;    // the server broke off a connection that there was
};

class HttpExchange {
 public:
  // `sink` takes the bytes of the request's range. `context` and `sink` must remain live while this
  // object is used.
  HttpExchange(HttpContext& context, HttpRequest request, PieceSink& sink);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  [[nodiscard]] Task<HttpOutcome> run();
  // Makes run() end soon with kCancelled. May be called from inside libcurl's callbacks.
  void cancel();

  // The head of an answer has begun to come, and when.
  [[nodiscard]] std::optional<Clock::time_point> answeredAt() const { return answeredAt_; }
  // How often it has paused for want of memory (PieceSink::full).
  [[nodiscard]] std::uint64_t pauses() const { return pauses_; }
  // Makes run() end soon with kTryElsewhere: other transfers are much faster.
  void giveUpSlow();
  // Of the object, those that the sink had already included.
  [[nodiscard]] std::uint64_t objectBytes() const { return objectBytes_; }
  // The answer that comes is no part of the object.
  [[nodiscard]] bool refused() const { return head_.status >= 300 || (plan_ && !plan_->ok()); }
  // As PieceSink::Writer.
  [[nodiscard]] bool leads() const { return writer_.leads(); }

 private:
  static std::size_t takeHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t takeBody(char* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t openSocket(void* self, curlsocktype purpose, curl_sockaddr* address);

  [[nodiscard]] Clock::duration shortened(Clock::duration usual) const;
  Status configure();
  Status configureProxy();
  void addHeader(const std::string& line);
  bool body(std::span<const std::byte> bytes);
  bool object(std::span<const std::byte> bytes);
  [[nodiscard]] bool complete() const;
  void checkHead();
  HttpOutcome outcome();
  std::string systemError() const;
  // Of this exchange: "1.1 KiB/s, 5 of 20 bytes".
  std::string pace() const;
  // Of a proxy's answer to CONNECT; 0: there was none.
  [[nodiscard]] long refusedByProxy() const;
  Error transferError(CURLcode code) const;

  HttpContext& context_;
  const HttpRequest request_;
  const std::string shown_;
  const std::string& proxy_;  // empty: none
  PieceSink& sink_;
  PieceSink::Writer writer_;
  CurlEasy easy_;
  CurlMulti::Transfer transfer_;
  curl_slist* headerList_ = nullptr;
  char curlMessage_[CURL_ERROR_SIZE] = {};

  ResponseHead head_;
  std::size_t headBytes_ = 0;
  std::optional<Result<BodyPlan>> plan_;  // once the head is complete
  std::unique_ptr<GzipBody> gzip_;        // of a body that is gzipped
  std::uint64_t bodyBytes_ = 0;
  std::uint64_t objectBytes_ = 0;
  std::optional<Clock::time_point> answeredAt_;
  std::string refusal_;  // the beginning of a body that is not the object
  bool cancelled_ = false;
  bool stalled_ = false;
  bool yielded_ = false;
  bool slow_ = false;
  std::uint64_t pauses_ = 0;
  bool overdue_ = false;
  Clock::time_point started_ = Clock::now();
  bool addressRefused_ = false;
};

}  // namespace hearth
