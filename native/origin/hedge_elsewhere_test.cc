// Hedges that go to another place than what they are for.
#include "origin/hedging_fixture.h"

namespace hearth {
namespace {

class HedgeElsewhereTest : public HedgingTest {
 protected:
  // Gives a byte, and then nothing until `over`.
  ScriptedServer::Script aByte(std::function<bool(ScriptedConnection&)> over) {
    return [this, over](const auto& /*request*/, auto& to) {
      to.send("HTTP/1.1 206 P\r\n" + kHedgedTag +
              "Content-Length: 300000\r\nContent-Range: bytes 1000000-1299999/3000000\r\n\r\n.");
      hedged_ = true;
      return over(to);
    };
  }
  // The straggler gives nothing, once it has a hedge.
  ScriptedServer::Script straggling() {
    return [this](const auto& request, auto& to) {
      if (request.number != kStraggler) return serve(request, to);
      passTime(to, [this] { return hedged_.load(); });
      return hang(to);
    };
  }
  static std::shared_ptr<OriginElsewhere> hedgingAt(const ScriptedServer& other) {
    auto elsewhere = std::make_shared<OriginElsewhere>();
    elsewhere->impatient = false;
    elsewhere->hedge = at(other.url());
    elsewhere->expectation = {kHedgedObject.size(), "etag:\"v1\""};
    return elsewhere;
  }
  std::atomic<bool> taken_{false};  // that byte
};

TEST_P(HedgeElsewhereTest, AHedgeElsewhereThatBreaksOffHasNotWon) {
  ScriptedServer other(aByte([](auto& /*to*/) { return false; }));
  ScriptedServer server(straggling());
  expectParts(server, kKnown);
  const auto elsewhere = hedgingAt(other);
  Location location = at(server.url());
  location.elsewhere = elsewhere;
  EXPECT_EQ(read(location).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(elsewhere->hedgeBytes, 1U);
  EXPECT_FALSE(elsewhere->hedgeWon);
  EXPECT_TRUE(elsewhere->hedgeBroke);
}

TEST_P(HedgeElsewhereTest, ThatTheTimeIsOverIsNoFailureOfTheHedge) {
  static constexpr auto kLeft = std::chrono::seconds(60);
  options.stallBytesPerSecond = 0;
  ScriptedServer other(aByte([this](auto& to) {
    while (!taken_) {
      reactor().post([this] { taken_ = client().statistics().hedgedBytes != 0; });
      to.sleep(std::chrono::milliseconds(1));
    }
    passTimeFor(to, kLeft);
    return hang(to);
  }));
  ScriptedServer server(straggling());
  expectParts(server, kKnown);
  const auto elsewhere = hedgingAt(other);
  elsewhere->left = kLeft;
  Location location = at(server.url());
  location.elsewhere = elsewhere;
  EXPECT_EQ(read(location).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(elsewhere->hedgeBytes, 1U);
  EXPECT_FALSE(elsewhere->hedgeBroke);
}

INSTANTIATE_TEST_SUITE_P(Backends, HedgeElsewhereTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll));

}  // namespace
}  // namespace hearth
