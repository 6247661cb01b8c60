// A server that is fast but for one request, which a hedge is sent for. Time passes because the
// scripts of the server say so: the bounds are far above what a busy machine takes. For tests.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "base/testing/moved_clock.h"
#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"
#include "reactor/synchronization.h"

namespace hearth {

inline const std::string kHedgedObject = patternedObject(3'000'000);
inline const std::string kHedgedTag = "ETag: \"v1\"\r\n";
// Requests after which the host is known; the next one is the straggler, then comes its hedge.
inline constexpr int kKnown = 8;
inline constexpr int kStraggler = kKnown + 1;
inline constexpr int kHedge = kKnown + 2;

class HedgingTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    options.hedging.firstByteFloor = std::chrono::seconds(10);
    options.hedging.firstByteUnknown = std::chrono::seconds(20);
    options.hedging.slowFor = std::chrono::seconds(10);
    both_ = std::make_unique<Event>(reactor());
  }

  // On a server's thread: time passes until `over`, or by so much.
  template <class Condition>
  void passTime(ScriptedConnection& to, Condition over,
                Clock::duration atMost = std::chrono::seconds(200)) {
    for (Clock::duration passed{}; passed < atMost && !over();
         passed += std::chrono::milliseconds(500)) {
      moveClock(std::chrono::milliseconds(500));
      reactor().post([] {});
      to.sleep(std::chrono::milliseconds(1));
    }
  }
  void passTimeFor(ScriptedConnection& to, Clock::duration time) {
    passTime(
        to, [] { return false; }, time);
  }
  // Nothing more comes until the server ends.
  static bool hang(ScriptedConnection& to) {
    to.sleep(std::chrono::hours(1));
    return false;
  }

  // The part of the object in three pieces, with their validator.
  static Task<Status> readPart(HedgingTest& test, Location location) {
    test.bytes_.assign(kPart, '.');
    test.pieces_ = 0;
    std::vector<std::span<std::byte>> into;
    const auto memory = std::as_writable_bytes(std::span(test.bytes_));
    for (std::size_t at = 0; at < kPart; at += kPiece) into.push_back(memory.subspan(at, kPiece));
    const OriginExpectation expectation{kHedgedObject.size(), "etag:\"v1\""};
    std::function<void(std::size_t)> filled = [&test](std::size_t) { ++test.pieces_; };
    co_return co_await test.client().fetch(std::move(location), expectation, kOffset,
                                           std::move(into), std::move(filled));
  }
  Status read(Location location) { return run(readPart(*this, std::move(location))); }
  // So many parts, so that the host is known and the next request is the straggler.
  void expectParts(const ScriptedServer& server, int count) {
    for (int i = 0; i < count; ++i) expectPart(read(at(server.url())));
  }
  void expectPart(const Status& status) {
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(bytes_ == kHedgedObject.substr(kOffset, kPart));
    EXPECT_EQ(pieces_, 3);
  }
  static std::string rangeOf(const ScriptedServer& server, int number) {
    return server.requests().at(static_cast<std::size_t>(number - 1)).headers.at("range");
  }
  static bool serve(const ScriptedRequest& request, ScriptedConnection& to) {
    return serveObject(kHedgedObject, request, to, kHedgedTag);
  }
  // The head of an answer, and the first piece, until that is taken.
  void serveFirstPiece(ScriptedConnection& to) {
    to.send("HTTP/1.1 206 P\r\n" + kHedgedTag +
            "Content-Length: 900000\r\nContent-Range: bytes 1000000-1899999/3000000\r\n\r\n");
    to.send(std::string_view(kHedgedObject).substr(kOffset, kPiece));
    while (pieces_ == 0) to.sleep(std::chrono::milliseconds(1));
  }

  // The straggler and its hedge are both under way, then the client is closed.
  static Task<Status> closedMeanwhile(HedgingTest& test, Location location) {
    Gate gate(test.reactor());
    Status status;
    gate.spawn(readInto(test, std::move(location), status));
    co_await test.both_->wait();
    co_await test.client().close();
    co_await gate.close();
    co_return status;
  }
  static Task<void> readInto(HedgingTest& test, Location location, Status& status) {
    status = co_await readPart(test, std::move(location));
  }

  static constexpr std::size_t kOffset = 1'000'000;
  static constexpr std::size_t kPiece = 300'000;
  static constexpr std::size_t kPart = 3 * kPiece;
  std::string bytes_;
  std::atomic<int> pieces_{0};
  std::atomic<bool> hedged_{false};
  std::unique_ptr<Event> both_;  // are under way
};

}  // namespace hearth
