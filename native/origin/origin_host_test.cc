#include "origin/origin_host.h"

#include <gtest/gtest.h>

#include "origin/origin_hosts.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kHostMiB = std::uint64_t{1} << 20;
constexpr Clock::time_point kBegin{};

class OriginHostTest : public testing::Test {
 protected:
  Reactor& reactor() { return *reactor_; }

 private:
  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::create(Reactor::Backend::kEpoll));
};

TEST_F(OriginHostTest, KnowsNoBoundBeforeEnoughAnswers) {
  OriginHost host(reactor(), OriginOptions{});
  for (int i = 0; i < 7; ++i) host.firstByte(10ms);
  EXPECT_EQ(host.firstByteBound(), 2s);
  host.firstByte(10ms);
  EXPECT_EQ(host.firstByteBound(), 500ms) << "the floor";
}

TEST_F(OriginHostTest, WaitsThreeTimesAsLongAsTheSlowestTwentiethTakes) {
  OriginHost host(reactor(), OriginOptions{});
  for (int i = 1; i <= 21; ++i) host.firstByte(i * 50ms);
  EXPECT_NEAR(std::chrono::duration<double>(host.firstByteBound()).count(), 3 * 1.0, 1e-6);
  for (int i = 0; i < 64; ++i) host.firstByte(1ms);
  EXPECT_EQ(host.firstByteBound(), 500ms) << "what is long ago is forgotten";
}

TEST_F(OriginHostTest, ComparesRatesWithTheMedian) {
  OriginHost host(reactor(), OriginOptions{});
  for (int i = 1; i <= 7; ++i) host.transferred(8 * kHostMiB, 1s);
  EXPECT_FALSE(host.stragglerRate());
  host.transferred(1000, 1us);  // says nothing
  EXPECT_FALSE(host.stragglerRate());
  host.transferred(800 * kHostMiB, 1s);
  EXPECT_EQ(host.stragglerRate(), 1.0 * kHostMiB);
}

TEST_F(OriginHostTest, SpendsAHundredthAndWhatThereIsAtTheStart) {
  OriginOptions options;
  options.hedging.budgetBytes = 4 * kHostMiB;
  OriginHost host(reactor(), options);
  EXPECT_TRUE(host.tryHedge(3 * kHostMiB, kBegin));
  EXPECT_TRUE(host.tryHedge(1, kBegin)) << "costs a MiB";
  EXPECT_FALSE(host.tryHedge(1, kBegin));
  for (int i = 0; i < 99; ++i) host.transferred(kHostMiB, 1s);
  EXPECT_FALSE(host.tryHedge(1, kBegin));
  host.transferred(kHostMiB, 1s);
  EXPECT_TRUE(host.tryHedge(kHostMiB, kBegin));
  host.transferred(100'000 * kHostMiB, 1s);
  EXPECT_FALSE(host.tryHedge(5 * kHostMiB, kBegin)) << "there is never more than at the start";
  EXPECT_TRUE(host.tryHedge(4 * kHostMiB, kBegin));
}

TEST_F(OriginHostTest, CountsSmallTransfersToo) {
  OriginOptions options;
  options.hedging.budgetBytes = kHostMiB;
  OriginHost host(reactor(), options);
  EXPECT_TRUE(host.tryHedge(kHostMiB, kBegin));
  for (std::uint64_t i = 0; i < 100 * kHostMiB / 64; ++i) host.transferred(64, 1ms);
  EXPECT_TRUE(host.tryHedge(kHostMiB, kBegin));
}

TEST_F(OriginHostTest, IsNotAskedTwiceWhileItThrottles) {
  OriginHost host(reactor(), OriginOptions{});
  host.throttled(kBegin, kBegin);
  EXPECT_FALSE(host.tryHedge(1, kBegin + 9s));
  EXPECT_TRUE(host.tryHedge(1, kBegin + 10s));
}

TEST_F(OriginHostTest, IsBySchemeNameAndPort) {
  const OriginOptions options;
  OriginHosts hosts(reactor(), options);
  const auto one = hosts.of("https://a.example/x?secret");
  EXPECT_EQ(hosts.of("https://A.example:443/y"), one);
  EXPECT_NE(hosts.of("http://a.example/x"), one);
  EXPECT_NE(hosts.of("https://b.example/x"), one);
  EXPECT_NE(hosts.of("https://a.example:444/x"), one);
}

TEST_F(OriginHostTest, IsForgottenWhenNotAskedForTheLongestTime) {
  const OriginOptions options;
  OriginHosts hosts(reactor(), options);
  const auto kept = hosts.of("http://kept/");
  const auto gone = hosts.of("http://gone/");
  for (std::size_t i = 2; i <= OriginHosts::kMaxHosts; ++i) {
    EXPECT_EQ(hosts.of("http://kept/"), kept);
    (void)hosts.of("http://h" + std::to_string(i) + "/");
  }
  EXPECT_EQ(hosts.of("http://kept/"), kept);
  EXPECT_NE(hosts.of("http://gone/"), gone);
}

TEST_F(OriginHostTest, IsAddedUpOverClients) {
  OriginStatistics sum{.bytes = 1, .hedgedRequests = 2};
  sum.add({.bytes = 10, .hedgedRequests = 20, .hosts = {{"http://a:80", 4}, {"http://b:80", 3}}});
  sum.add({.hosts = {{"http://a:80", 2}}});
  EXPECT_EQ(sum.bytes, 11u);
  EXPECT_EQ(sum.hedgedRequests, 22u);
  ASSERT_EQ(sum.hosts.size(), 2u);
  EXPECT_EQ(sum.hosts[0].parallelism, 6u);
  EXPECT_EQ(sum.hosts[1].parallelism, 3u);
}

TEST_F(OriginHostTest, HasABoundOfHedgesAtATime) {
  OriginOptions options;
  options.connections = 16;
  OriginHosts hosts(reactor(), options);
  const auto host = hosts.of("http://a/");
  EXPECT_TRUE(hosts.tryHedge(*host, 1));
  EXPECT_TRUE(hosts.tryHedge(*host, 1));
  EXPECT_FALSE(hosts.tryHedge(*host, 1));
  hosts.endHedge();
  EXPECT_TRUE(hosts.tryHedge(*host, 1));
  EXPECT_EQ(OriginHosts::hedgePlaces(1), 1u);
}

}  // namespace
}  // namespace hearth
