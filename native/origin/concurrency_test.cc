#include <chrono>
#include <filesystem>
#include <ranges>
#include <thread>

#include "base/testing/eventually.h"
#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = 30'000;
const std::string kManyPieces = patternedObject(100 * kPiece);

std::ptrdiff_t threadsOfProcess() {
  return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task"),
                               std::filesystem::directory_iterator());
}

class ConcurrencyTest : public OriginFixture {};

INSTANTIATE_TEST_SUITE_P(Backends, ConcurrencyTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

// Many fetches of one client, piece i into `bytes` and `statuses[i]`.
struct Batch {
  Batch(OriginClient& owner, Reactor& reactor, std::string url, std::size_t count)
      : client(owner),
        first(reactor),
        second(reactor),
        bytes(count * kPiece, '\0'),
        statuses(count) {
    location.url = std::move(url);
  }
  OriginClient& client;
  Gate first, second;
  Location location;
  std::string bytes;
  std::vector<Status> statuses;
  std::vector<std::size_t> order;  // of pieces that came

  static Task<void> one(Batch& batch, std::size_t i, bool startsAnother) {
    std::vector<std::span<std::byte>> into{
        std::as_writable_bytes(std::span(batch.bytes).subspan(i * kPiece, kPiece))};
    std::function<void(std::size_t)> filled = [&batch, i, startsAnother](std::size_t) {
      batch.order.push_back(i);
      if (startsAnother) batch.second.spawn(one(batch, i + batch.statuses.size() / 2, false));
    };
    const OriginExpectation nothing;
    auto fetch =
        batch.client.fetch(batch.location, nothing, i * kPiece, std::move(into), std::move(filled));
    batch.statuses[i] = co_await fetch;
  }
  // The first half; each of them begins one of the second half from inside `filled`.
  static Task<void> halves(Batch& batch) {
    for (std::size_t i = 0; i < batch.statuses.size() / 2; ++i)
      batch.first.spawn(one(batch, i, true));
    co_await batch.first.close();
    co_await batch.second.close();
  }
  static Task<void> all(Batch& batch) {
    for (std::size_t i = 0; i < batch.statuses.size(); ++i) batch.first.spawn(one(batch, i, false));
    co_await batch.first.close();
  }
  // Starts all, closes the client a little later and waits for everything.
  static Task<void> closedMeanwhile(Batch& batch, Reactor& reactor, Clock::duration after) {
    for (std::size_t i = 0; i < batch.statuses.size(); ++i) batch.first.spawn(one(batch, i, false));
    co_await reactor.sleep(after);
    co_await batch.client.close();
    co_await batch.first.close();
  }
};

TEST_P(ConcurrencyTest, StartsFetchesFromInsideFilled) {
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kManyPieces, request, to); });
  Batch batch(client(), reactor(), server.url(), 100);
  run(Batch::halves(batch));
  for (const Status& status : batch.statuses) EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_TRUE(batch.bytes == kManyPieces);
}

TEST_P(ConcurrencyTest, BoundsItsConnectionsAndServesInOrder) {
  options.connections = 3;
  ScriptedServer server([](const auto& request, auto& to) {
    to.sleep(2ms);
    return serveObject(kManyPieces, request, to);
  });
  Batch batch(client(), reactor(), server.url(), 60);
  run(Batch::all(batch));
  EXPECT_TRUE(batch.bytes == kManyPieces.substr(0, 60 * kPiece));
  EXPECT_LE(server.connections(), 3);
  EXPECT_EQ(server.mostAtOnce(), 3);
  for (std::size_t i = 0; i < batch.order.size(); ++i) {
    EXPECT_LE(batch.order[i], i + 2)
        << "they begin in order, three at a time, and end as they come";
  }
}

TEST_P(ConcurrencyTest, SurvivesConnectionsThatComeAndGo) {
  // Every answer closes its connection, so descriptors' numbers are used again and again.
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number % 5 == 0) {
      to.resetOnClose();
      return false;
    }
    serveObject(kManyPieces, request, to);
    return false;
  });
  for (int round = 0; round < 3; ++round) {
    Batch batch(client(), reactor(), server.url(), 100);
    run(Batch::all(batch));
    for (const Status& status : batch.statuses) EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(batch.bytes == kManyPieces);
  }
}

TEST_P(ConcurrencyTest, CloseCancelsWhateverAFetchIsDoing) {
  options.connections = 4;
  options.firstBackOff = options.longestBackOff = kHang;
  // Answers slowly, never, in part, or with a failure that is waited after.
  ScriptedServer server([](const auto& request, auto& to) {
    switch (request.number % 4) {
      case 0:
        return answer(to, "503 Unavailable", "Retry-After: 60\r\n");
      case 1:
        to.send("HTTP/1.1 206 P\r\nContent-Range: bytes 0-29999/3000000\r\n\r\nsome");
        break;
      case 2:
        to.send("HTTP/1.1 206 P\r\n");
        break;
      default:
        break;
    }
    to.sleep(120s);
    return false;
  });
  const auto begin = Clock::now();
  Batch batch(client(), reactor(), server.url(), 40);
  run(Batch::closedMeanwhile(batch, reactor(), 100ms));
  EXPECT_LT(Clock::now() - begin, 50s) << "the shortest of these waits is a minute";
  for (const Status& status : batch.statuses) {
    // A partial answer to another range than asked may have been refused before.
    EXPECT_TRUE(status.code() == ErrorCode::kCancelled ||
                status.code() == ErrorCode::kProtocolError);
  }
  EXPECT_EQ(batch.statuses.back().code(), ErrorCode::kCancelled);
  Batch late(client(), reactor(), server.url(), 1);
  run(Batch::all(late));
  EXPECT_EQ(late.statuses[0].code(), ErrorCode::kCancelled);
}

TEST_P(ConcurrencyTest, CloseAtOnceEndsAtOnce) {
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kManyPieces, request, to); });
  Batch batch(client(), reactor(), server.url(), 30);
  run(Batch::closedMeanwhile(batch, reactor(), 0ms));
  for (const Status& status : batch.statuses) {
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kCancelled);
  }
}

TEST_P(ConcurrencyTest, CloseDoesNotWaitForNameLookUps) {
  Batch batch(client(), reactor(), "http://no-such-host.invalid/x", 2);
  // ThreadSanitizer starts a thread of its own, which stays, beside the first of the process.
  std::thread([] {}).join();
  const std::ptrdiff_t threads = threadsOfProcess();
  const auto begin = Clock::now();
  run(Batch::closedMeanwhile(batch, reactor(), 0ms));
  EXPECT_LT(Clock::now() - begin, 60s);
  // The look-ups go on in threads of their own for as long as the resolver tries. A process that
  // ends in the middle of one gets reports of sanitizers about the resolver's memory.
  EXPECT_TRUE(eventually([threads] { return threadsOfProcess() <= threads; }));
}

}  // namespace
}  // namespace hearth
