// Objects that come by one request while the memory for them comes piece by piece.
#include <atomic>

#include "origin/hedging_fixture.h"
#include "origin/piece_sink.h"

namespace hearth {
namespace {

class LateSinkTest : public HedgingTest {
 protected:
  static constexpr std::size_t kPieces = 10;
  static constexpr std::size_t kSize = 300'000;

  // Gives one piece after the other, each when the one before is full; after `most` of them it ends
  // the sink.
  struct Read {
    std::string bytes = std::string(kPieces * kSize, '.');
    std::size_t given = 0;
    std::atomic<std::size_t> full = 0;
    std::size_t most = kPieces;
    Status status;
  };
  static Task<Status> stream(LateSinkTest& test, Location location, Read& read) {
    PieceSink* late = nullptr;
    const auto give = [&] {
      if (read.given == read.most) return late->end();
      const auto memory = std::as_writable_bytes(std::span(read.bytes));
      late->add(memory.subspan(read.given++ * kSize, kSize));
    };
    // Behind the transfer's callbacks, as whoever has to find the memory first.
    PieceSink sink(kPieces * kSize, [&](std::size_t piece) {
      EXPECT_EQ(piece, read.full++);
      EXPECT_EQ(read.bytes.compare(piece * kSize, kSize, kHedgedObject, piece * kSize, kSize), 0);
      if (read.full != kPieces) test.reactor().post(give);
    });
    late = &sink;
    give();
    const OriginExpectation expectation{kHedgedObject.size(), "etag:\"v1\""};
    read.status = co_await test.client().stream(std::move(location), expectation, sink, nullptr);
    co_return read.status;
  }
  static Task<void> streamInto(LateSinkTest& test, Location location, PieceSink& sink,
                               Status& status) {
    status = co_await test.client().stream(std::move(location), {}, sink, nullptr);
  }
  static Task<Status> endBetweenAttempts(LateSinkTest& test, Location location) {
    Status status;
    PieceSink sink(kSize, [](std::size_t) {});
    Gate gate(test.reactor());
    gate.spawn(streamInto(test, std::move(location), sink, status));
    while (test.client().statistics().retries == 0) {
      co_await test.reactor().sleep(std::chrono::milliseconds(1));
    }
    sink.end();
    co_await gate.close();
    co_return status;
  }
  static Task<void> streamBeside(LateSinkTest& test, Location location, Read& read) {
    (void)co_await stream(test, std::move(location), read);
  }
  // The part, by another owner, once the stream has filled a piece.
  static Task<Status> readBeside(LateSinkTest& test, Location ours, Read& read, Location other) {
    Gate gate(test.reactor());
    gate.spawn(streamBeside(test, std::move(ours), read));
    while (read.full == 0) co_await test.reactor().sleep(std::chrono::milliseconds(1));
    Status status = co_await readPart(test, std::move(other));
    co_await gate.close();
    co_return status;
  }
  Status read(Read& into, Location location) {
    return run(stream(*this, std::move(location), into));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, LateSinkTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(LateSinkTest, FillsPiecesThatAreGivenWhileTheBytesCome) {
  ScriptedServer server([](const auto& request, auto& to) { return serve(request, to); });
  Read all;
  const Status status = read(all, at(server.url()));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_TRUE(all.bytes == kHedgedObject);
  EXPECT_EQ(all.full, kPieces);
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_EQ(rangeOf(server, 1), "bytes=0-2999999");
  EXPECT_EQ(server.requests().front().headers.at("if-match"), "\"v1\"");
}

TEST_P(LateSinkTest, AsksForTheRestFromTheFirstByteThatIsMissing) {
  options.firstBackOff = std::chrono::milliseconds(1);
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number != 1) return serve(request, to);
    to.send("HTTP/1.1 206 Partial Content\r\n" + kHedgedTag +
            "Content-Range: bytes 0-2999999/3000000\r\nContent-Length: 3000000\r\n\r\n");
    to.send(std::string_view(kHedgedObject).substr(0, 1'000'000));
    return false;
  });
  Read all;
  const Status status = read(all, at(server.url()));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_TRUE(all.bytes == kHedgedObject);
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_EQ(rangeOf(server, 2), "bytes=1000000-2999999");
}

TEST_P(LateSinkTest, EndsWhenItsCallerWantsNoMore) {
  ScriptedServer server([](const auto& request, auto& to) { return serve(request, to); });
  Read some;
  some.most = 4;
  EXPECT_EQ(read(some, at(server.url())).code(), ErrorCode::kCancelled);
  EXPECT_EQ(some.full, 4u);
  EXPECT_TRUE(some.bytes == kHedgedObject.substr(0, 4 * kSize) + std::string(6 * kSize, '.'));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_P(LateSinkTest, EndsWhileItWaitsToAskAgain) {
  options.firstBackOff = options.longestBackOff = std::chrono::hours(1);
  ScriptedServer server(
      [](const auto&, auto& to) { return answer(to, "503 Service Unavailable"); });
  EXPECT_EQ(run(endBetweenAttempts(*this, at(server.url()))).code(), ErrorCode::kCancelled);
}

TEST_P(LateSinkTest, SaysThatTheObjectIsAnotherOne) {
  ScriptedServer server([](const auto& request, auto& to) {
    return serveObject(kHedgedObject, request, to, "ETag: \"v2\"\r\n");
  });
  Read none;
  EXPECT_EQ(read(none, at(server.url())).code(), ErrorCode::kOriginChanged);
  EXPECT_EQ(none.full, 0u);
}

TEST_P(LateSinkTest, LeavesAServerThatIsSlowerThanItWas) {
  std::atomic<bool> over{false};
  ScriptedServer server([&](const auto& request, auto& to) {
    if (request.number != kStraggler) return serve(request, to);
    to.send("HTTP/1.1 206 Partial Content\r\n" + kHedgedTag +
            "Content-Range: bytes 0-2999999/3000000\r\nContent-Length: 3000000\r\n\r\n");
    to.send(std::string_view(kHedgedObject).substr(0, kSize + 1));
    passTime(to, [&over] { return over.load(); });
    return hang(to);
  });
  expectParts(server, kKnown);
  Read some;
  EXPECT_EQ(read(some, at(server.url())).code(), ErrorCode::kTryElsewhere);
  over = true;
  EXPECT_EQ(some.full, 1u);
  EXPECT_EQ(client().statistics().hedgedRequests, 0u);
}

TEST_P(LateSinkTest, LeavesAServerBelowTheFloorOfWhichNoPaceIsKnown) {
  std::atomic<bool> over{false};
  Read some;
  ScriptedServer server([&](const auto&, auto& to) {
    to.send("HTTP/1.1 206 Partial Content\r\n" + kHedgedTag +
            "Content-Range: bytes 0-2999999/3000000\r\nContent-Length: 3000000\r\n\r\n");
    to.send(std::string_view(kHedgedObject).substr(0, kSize + 1));
    while (some.full == 0) to.sleep(std::chrono::milliseconds(1));
    passTime(to, [&over] { return over.load(); });
    return hang(to);
  });
  EXPECT_EQ(read(some, at(server.url())).code(), ErrorCode::kTryElsewhere);
  over = true;
  EXPECT_EQ(some.full, 1u);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_P(LateSinkTest, GivesItsConnectionToAnotherOwner) {
  options.connections = 1;
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number != 1) return serve(request, to);
    to.send("HTTP/1.1 206 Partial Content\r\n" + kHedgedTag +
            "Content-Range: bytes 0-2999999/3000000\r\nContent-Length: 3000000\r\n\r\n");
    to.send(std::string_view(kHedgedObject).substr(0, kSize + 1));
    return hang(to);
  });
  Read some;
  Location ours = at(server.url()), other = at(server.url());
  ours.owner = "ours";
  other.owner = "other";
  expectPart(run(readBeside(*this, std::move(ours), some, std::move(other))));
  EXPECT_EQ(some.status.code(), ErrorCode::kTryElsewhere);
  EXPECT_EQ(some.full, 1u);
}

TEST_P(LateSinkTest, RefusesWhatIsNotOneHttpServers) {
  ScriptedServer server([](const auto& request, auto& to) { return serve(request, to); });
  Read none;
  Location other = at(server.url());
  other.elsewhere = std::make_shared<OriginElsewhere>();
  EXPECT_EQ(read(none, std::move(other)).code(), ErrorCode::kUnsupported);
  Location folder;
  folder.path = "/nowhere";
  Read nothing;
  EXPECT_EQ(read(nothing, std::move(folder)).code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace hearth
