// How many requests one host is asked at a time, over real connections; the rule itself is in
// parallelism_climb_test.cc.
#include <atomic>
#include <chrono>

#include "base/testing/eventually.h"
#include "base/testing/moved_clock.h"
#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

const std::string kClimbedObject = patternedObject(300'000);

class ParallelismTest : public OriginFixture {
 protected:
  void expectObject(const ScriptedServer& server) {
    const Answer answered = fetch(at(server.url()), {}, 0, {kClimbedObject.size()});
    ASSERT_TRUE(answered.status.ok()) << answered.status.error().message;
    EXPECT_TRUE(answered.bytes == kClimbedObject);
  }
  std::size_t parallelismOf(const ScriptedServer& server) {
    for (const OriginHostStatistics& each : client().statistics().hosts) {
      if (each.host + "/object" == server.url()) return each.parallelism;
    }
    return 0;
  }
  void expectFallAndReturn(const ScriptedServer& server) {
    expectObject(server);
    EXPECT_LT(parallelismOf(server), 16u);
    EXPECT_GE(parallelismOf(server), 8u);
    for (int second = 0; second < 8; ++second) {
      moveClock(1s);
      expectObject(server);
    }
    EXPECT_EQ(parallelismOf(server), 16u);
  }

  static Task<void> one(ParallelismTest& test, Location location, std::string& bytes,
                        Status& status) {
    bytes.assign(kClimbedObject.size(), '.');
    std::vector<std::span<std::byte>> into{std::as_writable_bytes(std::span(bytes))};
    std::function<void(std::size_t)> filled = [](std::size_t) {};
    const OriginExpectation nothing;
    status = co_await test.client().fetch(std::move(location), nothing, 0, std::move(into),
                                          std::move(filled));
  }
  static Task<void> all(ParallelismTest& test, Location location, std::vector<std::string>& bytes,
                        std::vector<Status>& statuses) {
    Gate gate(test.reactor());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      gate.spawn(one(test, location, bytes[i], statuses[i]));
    co_await gate.close();
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, ParallelismTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(ParallelismTest, StartsWithAllForEachHost) {
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kClimbedObject, request, to); });
  expectObject(server);
  EXPECT_EQ(client().statistics().hosts.size(), 1u);
  EXPECT_EQ(parallelismOf(server), 16u);
}

TEST_P(ParallelismTest, FallsWhenTheHostThrottlesAndComesBack) {
  for (const char* const status : {"429 Too Many Requests", "503 Slow Down"}) {
    SCOPED_TRACE(status);
    ScriptedServer server([status](const auto& request, auto& to) {
      if (request.number == 1) return answer(to, status, "Retry-After: 0\r\n");
      return serveObject(kClimbedObject, request, to);
    });
    expectFallAndReturn(server);
  }
}

TEST_P(ParallelismTest, FallsWhenTheHostBreaksOffAndComesBack) {
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number != 1) return serveObject(kClimbedObject, request, to);
    to.send(
        "HTTP/1.1 206 P\r\nContent-Length: 300000\r\n"
        "Content-Range: bytes 0-299999/300000\r\n\r\n" +
        kClimbedObject.substr(0, 1000));
    to.resetOnClose();
    return false;
  });
  expectFallAndReturn(server);
}

TEST_P(ParallelismTest, AHostThatTakesFewIsReadToTheEnd) {
  std::atomic<int> now{0};
  std::atomic<int> refused{0};
  ScriptedServer server([&](const auto& request, auto& to) {
    const bool tooMany = ++now > 4;
    // The first four go on when a fifth has come, however long its thread takes to.
    refused += tooMany ? 1 : 0;
    eventually([&] { return refused > 0; });
    to.sleep(5ms);
    --now;
    if (!tooMany) return serveObject(kClimbedObject, request, to);
    return answer(to, "429 Too Many Requests", "Retry-After: 0\r\n");
  });
  std::vector<std::string> bytes(40);
  std::vector<Status> statuses(bytes.size());
  run(all(*this, at(server.url()), bytes, statuses));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_TRUE(statuses[i].ok()) << statuses[i].error().message;
    EXPECT_TRUE(bytes[i] == kClimbedObject);
  }
  EXPECT_LE(server.mostAtOnce(), 16);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace hearth
