// One request for a range and, when the request turns out to be a straggler, a hedge: a second
// request on another connection for the rest of the piece being filled. The transfer that brings
// the next missing byte goes on, and the other is broken off. Private to this room. Reactor's
// thread only.
//
// Both write into the same memory, never at a time: the first until the hedge is ahead of it, and
// from its first byte on the hedge alone (PieceSink::Writer). The bytes of the hedge before this
// point are dropped, so it needs no memory of its own.
#pragma once

#include <memory>
#include <optional>

#include "origin/http_exchange.h"
#include "origin/origin_hosts.h"
#include "reactor/synchronization.h"

namespace hearth {

class HedgedTransfer {
 public:
  // `host`: of the request's URL, one of `hosts`. `sink` takes the bytes of the request's range.
  // `context`, `hosts` and `sink` must remain live while this object is used.
  // `leaveStraggler`: a straggler ends with kTryElsewhere instead of being hedged.
  HedgedTransfer(HttpContext& context, OriginHosts& hosts, std::shared_ptr<OriginHost> host,
                 HttpRequest request, bool leaveStraggler, PieceSink& sink);

  // Once. As HttpExchange::run(), but an outcome that is ok may leave the end of the range: the
  // bytes behind the piece that a hedge has completed. Errors are those of the first request, and
  // of the hedge once it is ahead; other failures of a hedge change nothing.
  [[nodiscard]] Task<HttpOutcome> run();
  // Makes run() end soon with kCancelled. May be called from inside libcurl's callbacks.
  void cancel();

 private:
  // One of the two.
  struct Side {
    Side(HttpContext& context, HttpRequest request, PieceSink& sink)
        : exchange(context, std::move(request), sink) {}
    HttpExchange exchange;
    std::optional<HttpOutcome> outcome;  // once it has ended
  };

  [[nodiscard]] HttpRequest counted(HttpRequest request);
  static Task<void> follow(HedgedTransfer& transfer, Side& side);

  // Which of the two the outcome is of; null while that is open.
  [[nodiscard]] Side* winner();
  // Time since `then` in which this thread was there to receive.
  [[nodiscard]] Clock::duration attentive(Clock::time_point then, Clock::duration lateness) const;
  // True when the first transfer is a straggler now: it is hedged, or ends if its sink is late or
  // another place has the bytes. Sets the time of the next look.
  [[nodiscard]] bool straggling();
  // Hedges, or leaves, the straggler if the budget of its host allows.
  void tryHedge();
  void measure();

  HttpContext& context_;
  OriginHosts& hosts_;
  const std::shared_ptr<OriginHost> host_;
  const HttpRequest request_;
  const bool leaveStraggler_;
  PieceSink& sink_;
  Event changed_;
  Gate sides_;
  Side first_;
  std::optional<Side> hedge_;
  const Clock::time_point started_ = Clock::now();
  const Clock::duration startedLateness_;
  bool cancelled_ = false;
  bool left_ = false;  // as a straggler

  Clock::time_point lookAt_ = Clock::time_point::min();
  // The window of time in which its rate is measured, from its first byte on.
  std::optional<Clock::time_point> windowBegin_;
  Clock::duration windowLateness_ = startedLateness_;
  std::uint64_t windowBytes_ = 0;
  std::uint64_t pauses_ = 0;  // when it was last looked at
};

}  // namespace hearth
