// Stragglers of a host that is fast otherwise.
#include "base/testing/eventually.h"
#include "origin/hedging_fixture.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

struct HedgedRead {
  std::string bytes = std::string(kHedgedObject.size(), '.');
  Status status;
};

// Counts pieces of the whole object that are right when they are announced.
Task<void> readObject(OriginClient& client, Location location, std::atomic<int>& pieces,
                      HedgedRead& read) {
  constexpr std::size_t kSize = 300'000;
  const auto memory = std::as_writable_bytes(std::span(read.bytes));
  std::vector<std::span<std::byte>> into;
  for (std::size_t at = 0; at < memory.size(); at += kSize)
    into.push_back(memory.subspan(at, kSize));
  std::function<void(std::size_t)> filled = [&](std::size_t piece) {
    if (read.bytes.compare(piece * kSize, kSize, kHedgedObject, piece * kSize, kSize) == 0)
      ++pieces;
  };
  const OriginExpectation expectation{kHedgedObject.size(), "etag:\"v1\""};
  read.status = co_await client.fetch(std::move(location), expectation, 0, std::move(into), filled);
}

Task<void> readObjects(Reactor& reactor, OriginClient& client, Location location,
                       std::atomic<int>& pieces, std::vector<HedgedRead>& reads) {
  Gate gate(reactor);
  for (HedgedRead& read : reads) gate.spawn(readObject(client, location, pieces, read));
  co_await gate.close();
}

INSTANTIATE_TEST_SUITE_P(Backends, HedgingTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(HedgingTest, AsksAgainWhenNoFirstByteComes) {
  ScriptedServer server([this](const auto& request, auto& to) {
    hedged_ = hedged_ || request.number == kHedge;
    if (request.number != kStraggler) return serve(request, to);
    passTime(to, [this] { return hedged_.load(); });
    return hang(to);
  });
  expectParts(server, kStraggler);
  EXPECT_EQ(rangeOf(server, kHedge), "bytes=1000000-1299999") << "one piece";
  EXPECT_EQ(rangeOf(server, kHedge + 1), "bytes=1300000-1899999") << "and then the others";
  EXPECT_EQ(server.requests().at(kHedge - 1).headers.at("if-match"), "\"v1\"");
  EXPECT_EQ(server.connections(), 2);
  const OriginStatistics statistics = client().statistics();
  EXPECT_EQ(statistics.hedgedRequests, 1u);
  EXPECT_EQ(statistics.hedgedBytes, kPiece);
  EXPECT_EQ(statistics.hedgesWon, 1u);
  EXPECT_EQ(statistics.requests, kHedge + 1u);
  EXPECT_EQ(statistics.retries, 0u);
}

TEST_P(HedgingTest, AsksAgainForTheRestOfAPieceThatStalls) {
  ScriptedServer server([this](const auto& request, auto& to) {
    hedged_ = hedged_ || request.number == kHedge;
    if (request.number != kStraggler) return serve(request, to);
    serveFirstPiece(to);
    passTime(to, [this] { return hedged_.load(); });
    return hang(to);
  });
  expectParts(server, kStraggler);
  EXPECT_EQ(rangeOf(server, kHedge), "bytes=1300000-1599999");
  EXPECT_EQ(rangeOf(server, kHedge + 1), "bytes=1600000-1899999");
  EXPECT_EQ(client().statistics().hedgesWon, 1u);
  EXPECT_EQ(client().statistics().hedgedBytes, kPiece);
}

TEST_P(HedgingTest, AsksAgainForWhatTrickles) {
  ScriptedServer server([this](const auto& request, auto& to) {
    hedged_ = hedged_ || request.number == kHedge;
    if (request.number != kStraggler) return serve(request, to);
    serveFirstPiece(to);
    std::size_t sent = kOffset + kPiece;
    passTime(to, [&] { return !to.send(kHedgedObject.substr(sent++, 1)); });
    return hang(to);
  });
  expectParts(server, kStraggler);
  EXPECT_EQ(client().statistics().hedgedRequests, 1u);
  EXPECT_EQ(client().statistics().hedgesWon, 1u);
  EXPECT_EQ(server.requests().size(), kHedge + 1u);
}

TEST_P(HedgingTest, LeavesAStragglerWhereAnotherPlaceHasTheBytes) {
  ScriptedServer server([this](const auto& request, auto& to) {
    if (request.number != kStraggler) return serve(request, to);
    serveFirstPiece(to);
    passTimeFor(to, 20s);
    return hang(to);
  });
  expectParts(server, kKnown);
  Location location = at(server.url());
  location.elsewhere = std::make_shared<OriginElsewhere>();
  location.elsewhere->impatient = false;
  location.elsewhere->leaveStraggler = true;
  EXPECT_EQ(read(location).code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(location.elsewhere->straggled);
  EXPECT_EQ(pieces_, 1);
  EXPECT_EQ(server.requests().size(), static_cast<std::size_t>(kStraggler));
  EXPECT_EQ(client().statistics().hedgedRequests, 0u);
}

TEST_P(HedgingTest, TheFirstMayStillWin) {
  ScriptedServer server([this](const auto& request, auto& to) {
    if (request.number == kHedge) {
      hedged_ = true;
      return hang(to);
    }
    if (request.number == kStraggler) passTime(to, [this] { return hedged_.load(); });
    return serve(request, to);
  });
  expectParts(server, kStraggler);
  EXPECT_EQ(server.requests().size(), static_cast<std::size_t>(kHedge));
  EXPECT_EQ(client().statistics().hedgedRequests, 1u);
  EXPECT_EQ(client().statistics().hedgedBytes, 0u);
  EXPECT_EQ(client().statistics().hedgesWon, 0u);
}

TEST_P(HedgingTest, AHostThatIsAlwaysSlowIsNotAskedTwiceBeyondTheBudget) {
  options.hedging.budgetBytes = 2 << 20;
  ScriptedServer server([this](const auto& request, auto& to) {
    passTimeFor(to, 60s);
    return serve(request, to);
  });
  expectParts(server, 4);
  EXPECT_EQ(client().statistics().hedgedRequests, 2u) << "as a hedge costs a MiB at least";
}

TEST_P(HedgingTest, LearnsThatAHostIsSlow) {
  ScriptedServer server([this](const auto& request, auto& to) {
    passTimeFor(to, request.number <= kKnown ? 15s : 30s);
    return serve(request, to);
  });
  expectParts(server, kKnown + 4);
  EXPECT_EQ(client().statistics().hedgedRequests, 0u);
}

TEST_P(HedgingTest, AHedgeThatFailsLeavesTheFirst) {
  for (const char* const failure : {"500 Internal", "404 Not Found", "206 Other", "reset"}) {
    SCOPED_TRACE(failure);
    hedged_ = false;
    const std::uint64_t before = client().statistics().hedgedRequests;
    ScriptedServer server([this, failure](const auto& request, auto& to) {
      if (request.number == kStraggler) passTime(to, [this] { return hedged_.load(); });
      if (request.number != kHedge) return serve(request, to);
      const std::string_view what = failure;
      if (what == "reset") to.resetOnClose();
      if (what.starts_with("206")) {
        serveObject(kHedgedObject, request, to, "ETag: \"v2\"\r\n");
      } else if (what != "reset") {
        answer(to, failure, {}, "no");
      }
      hedged_ = true;
      return false;
    });
    expectParts(server, kStraggler);
    EXPECT_EQ(client().statistics().hedgedRequests, before + 1);
    EXPECT_EQ(client().statistics().hedgesWon, 0u);
    EXPECT_EQ(server.requests().size(), static_cast<std::size_t>(kHedge));
  }
}

TEST_P(HedgingTest, AHedgeGoesOnWhenTheFirstFails) {
  ScriptedServer server([this](const auto& request, auto& to) {
    if (request.number == kStraggler) {
      passTime(to, [this] { return hedged_.load(); });
      return answer(to, "500 Internal", {}, "no");
    }
    if (request.number == kHedge) {
      hedged_ = true;
      to.sleep(50ms);
    }
    return serve(request, to);
  });
  expectParts(server, kStraggler);
  EXPECT_EQ(client().statistics().hedgesWon, 1u);
  EXPECT_EQ(client().statistics().retries, 0u);
}

TEST_P(HedgingTest, AHedgeMayBeRedirected) {
  constexpr int kHub = 2 * kKnown + 1;
  ScriptedServer server([this](const auto& request, auto& to) {
    if (request.target == "/blob") return serve(request, to);
    hedged_ = hedged_ || request.number == kHub + 1;
    if (request.number == kHub) {
      passTime(to, [this] { return hedged_.load(); });
      return hang(to);
    }
    return answer(to, "302 Found", "Location: /blob\r\n");
  });
  expectParts(server, kKnown + 1);
  EXPECT_EQ(client().statistics().hedgesWon, 1u);
  EXPECT_EQ(server.requests().size(), kHub + 2u);
}

TEST_P(HedgingTest, CloseEndsBoth) {
  ScriptedServer server([this](const auto& request, auto& to) {
    if (request.number < kStraggler) return serve(request, to);
    if (request.number == kStraggler) {
      passTime(to, [this] { return hedged_.load(); });
    } else {
      hedged_ = true;
      reactor().post([this] { both_->set(); });
    }
    return hang(to);
  });
  expectParts(server, kKnown);
  const auto begin = std::chrono::steady_clock::now();
  const Status status = run(closedMeanwhile(*this, at(server.url())));
  EXPECT_EQ(status.code(), ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
  EXPECT_EQ(client().statistics().hedgedRequests, 1u);
}

TEST_P(HedgingTest, NothingIsAskedForAgainThatMayNotBe) {
  options.hedging.firstByteFloor = 3s;
  struct Case {
    const char* what;
    ErrorCode code;
  };
  for (const Case& expected :
       {Case{"expired", ErrorCode::kOk}, Case{"absent", ErrorCode::kNotFound},
        Case{"throttled", ErrorCode::kOk}}) {
    SCOPED_TRACE(expected.what);
    const std::string_view what = expected.what;
    ScriptedServer server([&](const auto& request, auto& to) {
      if (what == "throttled" && request.number == kKnown) {
        return answer(to, "429 Too Many Requests", "Retry-After: 0\r\n");
      }
      if (request.number != kStraggler) return serve(request, to);
      if (what == "absent") {
        to.send("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n");
        passTimeFor(to, 60s);
        return to.send("never");
      }
      // A host that throttles is asked for nothing twice for ten seconds, of which some go by
      // otherwise on a busy machine.
      passTimeFor(to, what == "throttled" ? 4s : 60s);
      return serve(request, to);
    });
    expectParts(server, kKnown - 1);
    Location location = at(server.url());
    if (what == "expired") {
      expectPart(read(location));
      location.expiresAtMs = std::chrono::duration_cast<std::chrono::milliseconds>(
                                 (WallClock::now() + 2s).time_since_epoch())
                                 .count();
    }
    if (what == "absent") expectPart(read(location));
    EXPECT_EQ(read(location).code(), expected.code);
    EXPECT_EQ(server.requests().size(), static_cast<std::size_t>(kStraggler));
    EXPECT_EQ(client().statistics().hedgedRequests, 0u);
  }
}

TEST_P(HedgingTest, MoreThanHedgesHavePlacesForAreHedgedOneAfterTheOther) {
  std::vector<HedgedRead> reads(6);
  std::atomic<int> hedges{0};
  ScriptedServer server([&](const auto& request, auto& to) {
    const auto range = request.range();
    // Both that have places are under way together, so the third one has to wait.
    if (range && range->second - range->first + 1 == kPiece) {
      ++hedges;
      eventually([&] { return hedges >= 2; });
      return serve(request, to);
    }
    // Of six at a time the first three stall behind their third piece.
    if (request.number <= kKnown || request.number > kKnown + 3) return serve(request, to);
    to.send("HTTP/1.1 206 P\r\n" + kHedgedTag +
            "Content-Length: 3000000\r\nContent-Range: bytes 0-2999999/3000000\r\n\r\n" +
            kHedgedObject.substr(0, 900'000));
    // One moves the clock, and not for what follows a hedge: the third one looks again by itself.
    if (request.number == kKnown + 1) {
      eventually([&] { return pieces_ >= 3 * 10 + 3 * 3; });
      passTime(to, [&] { return hedges >= 2; });
    }
    return hang(to);
  });
  expectParts(server, kKnown);
  pieces_ = 0;
  run(readObjects(reactor(), client(), at(server.url()), pieces_, reads));
  for (const HedgedRead& read : reads) {
    EXPECT_TRUE(read.status.ok()) << read.status.error().message;
    EXPECT_TRUE(read.bytes == kHedgedObject);
  }
  EXPECT_EQ(pieces_, 6 * 10) << "each was announced once";
  EXPECT_EQ(client().statistics().hedgesWon, 3u);
  EXPECT_EQ(client().statistics().hedgedBytes, 3 * 300'000u);
}

}  // namespace
}  // namespace hearth
