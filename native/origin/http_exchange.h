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
#include "origin/origin_client.h"
#include "origin/piece_sink.h"
#include "origin/response_check.h"

namespace hearth {

struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlEasy = std::unique_ptr<CURL, CurlEasyDeleter>;

// The same for all exchanges of a client, which outlives them.
struct HttpContext {
  Reactor& reactor;
  CurlMulti& multi;
  const OriginOptions& options;
  const AddressPolicy& addresses;
  OriginStatistics& statistics;
};

struct HttpRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  bool expires = false;  // the location has an expiry
  OriginExpectation expectation;
  RangeAsked range;
  Clock::time_point deadline = Clock::time_point::max();
  std::function<bool()> wantedByOthers;  // its connection or memory; may be null
};

struct HttpOutcome {
  // Ok when all bytes came or `redirect` is set. kUnavailable: another attempt may succeed.
  Status status;
  std::string redirect;  // absolute URL
  std::optional<Clock::duration> retryAfter;
  bool yielded = false;  // it was slow, and others wait: no failure
};

class HttpExchange {
 public:
  // `easy` is reset and configured; `sink` takes the bytes. `context`, `easy` and `sink` must
  // remain live while this object is used.
  HttpExchange(HttpContext& context, CURL* easy, HttpRequest request, PieceSink& sink);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  [[nodiscard]] Task<HttpOutcome> run();
  // Makes run() end soon with kCancelled. May be called from inside libcurl's callbacks.
  void cancel();

 private:
  static std::size_t takeHeader(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t takeBody(char* data, std::size_t size, std::size_t count, void* self);
  static curl_socket_t openSocket(void* self, curlsocktype purpose, curl_sockaddr* address);

  Status configure();
  void addHeader(const std::string& line);
  bool body(std::span<const std::byte> bytes);
  void checkHead();
  HttpOutcome outcome();
  std::string systemError() const;
  // Of this exchange: "1.1 KiB/s, 5 of 20 bytes".
  std::string pace() const;
  Error transferError(CURLcode code) const;

  HttpContext& context_;
  const HttpRequest request_;
  const std::string shown_;
  PieceSink& sink_;
  CurlMulti::Transfer transfer_;
  curl_slist* headerList_ = nullptr;
  char curlMessage_[CURL_ERROR_SIZE] = {};

  ResponseHead head_;
  std::size_t headBytes_ = 0;
  std::optional<Result<BodyPlan>> plan_;  // once the head is complete
  std::uint64_t skipLeft_ = 0;
  std::uint64_t bodyBytes_ = 0;
  std::string refusal_;  // the beginning of a body that is not the object
  bool cancelled_ = false;
  bool stalled_ = false;
  bool yielded_ = false;
  bool overdue_ = false;
  Clock::time_point started_ = Clock::now();
  bool addressRefused_ = false;
};

}  // namespace hearth
