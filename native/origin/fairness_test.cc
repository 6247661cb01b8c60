// Datasets that share the connections of one client: a slow origin of one holds up no other.
#include <chrono>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kFairPiece = 20'000;
const std::string kFairObject = patternedObject(kFairPiece);

class FairnessTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    options.connections = 3;
    options.stallTimeout = 60s;
    options.floorTimeout = 300ms;
    options.firstBackOff = options.longestBackOff = 1ms;
  }

  struct Fetch {
    std::string bytes = std::string(kFairPiece, '\0');
    Status status;
    bool ended = false;
    std::function<bool()> memoryWanted = nullptr;
  };

  static Task<void> one(FairnessTest& test, Location location, Fetch& fetch) {
    std::vector<std::span<std::byte>> into{std::as_writable_bytes(std::span(fetch.bytes))};
    std::function<void(std::size_t)> filled = [](std::size_t) {};
    const OriginExpectation nothing;
    fetch.status = co_await test.client().fetch(location, nothing, 0, std::move(into), filled,
                                                fetch.memoryWanted);
    fetch.ended = true;
  }

  static Location of(const ScriptedServer& server, std::string owner) {
    Location location = at(server.url());
    location.owner = std::move(owner);
    return location;
  }

  // Eight of one owner, and then the others of another one.
  static Task<void> allAtOnce(FairnessTest& test, const ScriptedServer& server,
                              std::vector<Fetch>& fetches) {
    Gate gate(test.reactor());
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      const std::string owner = i < 8 ? "/a" : "/b";
      Location location = at(server.url(owner));
      location.owner = owner;
      gate.spawn(one(test, location, fetches[i]));
    }
    co_await gate.close();
  }

  // All connections are taken by `slow`, and more of it wait; then one of `fast`. Ends with that.
  static Task<void> fastBehindSlow(FairnessTest& test, Location slow, Location fast,
                                   std::vector<Fetch>& slowOnes, Fetch& fastOne) {
    Gate gate(test.reactor());
    for (Fetch& each : slowOnes) gate.spawn(one(test, slow, each));
    co_await test.reactor().sleep(50ms);
    co_await one(test, fast, fastOne);
    co_await test.client().close();
    co_await gate.close();
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, FairnessTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

// Some bytes a second for as long as a client listens.
bool trickle(const ScriptedRequest&, ScriptedConnection& to) {
  to.send("HTTP/1.1 206 P\r\nContent-Length: 20000\r\nContent-Range: bytes 0-19999/20000\r\n\r\n");
  for (int i = 0; i < 20'000 && to.send("x"); ++i) to.sleep(20ms);
  return false;
}

TEST_P(FairnessTest, ADatasetIsServedWhileAnothersOriginTrickles) {
  ScriptedServer slow(trickle);
  ScriptedServer fast(
      [](const auto& request, auto& to) { return serveObject(kFairObject, request, to); });
  std::vector<Fetch> slowOnes(12);
  Fetch fastOne;
  run(fastBehindSlow(*this, of(slow, "a"), of(fast, "b"), slowOnes, fastOne));
  EXPECT_TRUE(fastOne.status.ok()) << fastOne.status.error().message;
  EXPECT_EQ(fastOne.bytes, kFairObject);
  for (const Fetch& each : slowOnes) EXPECT_EQ(each.status.code(), ErrorCode::kCancelled);
}

TEST_P(FairnessTest, WhoseMemoryOthersWantGivesItBack) {
  ScriptedServer slow(trickle);
  Fetch fetch;
  fetch.memoryWanted = [] { return true; };
  run(one(*this, of(slow, "a"), fetch));
  EXPECT_EQ(fetch.status.code(), ErrorCode::kTryElsewhere);
}

TEST_P(FairnessTest, ASlowTransferWithoutWaitersContinuesUntilTheDeadlineOfItsRun) {
  options.runTimeout = 5s;
  ScriptedServer slow(trickle);
  Fetch fetch;
  run(one(*this, of(slow, "a"), fetch));
  EXPECT_EQ(fetch.status.code(), ErrorCode::kDeadlineExceeded);
  const std::string message = fetch.status.error().message;
  for (const char* part : {"127.0.0.1", "KiB/s", "of 20000 bytes", "check its network"}) {
    EXPECT_NE(message.find(part), message.npos) << message;
  }
  EXPECT_EQ(slow.requests().size(), 1u);
}

TEST_P(FairnessTest, PlacesGoToWhoHoldsTheFewest) {
  options.connections = 1;
  std::vector<std::string> order;
  std::mutex mutex;
  ScriptedServer server([&](const ScriptedRequest& request, ScriptedConnection& to) {
    {
      const std::lock_guard lock(mutex);
      order.push_back(request.target);
    }
    to.sleep(5ms);
    return serveObject(kFairObject, request, to);
  });
  std::vector<Fetch> fetches(10);
  run(allAtOnce(*this, server, fetches));
  const auto last = std::find(order.rbegin(), order.rend(), "/b").base() - order.begin();
  EXPECT_LE(last, 5) << "two requests of one came behind eight of the other that were there first";
}

}  // namespace
}  // namespace hearth
