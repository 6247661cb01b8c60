#include "engine/client_transit.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

struct ClientTransitTest : testing::Test {
  // Enters, and keeps its pass.
  static Task<void> keep(ClientTransitTest& test, ClientIdentity client, std::uint64_t bytes) {
    const std::string pod = client.pod;
    ClientTransit::Pass pass = co_await test.transit.enter(std::move(client), bytes);
    test.passes.push_back(std::move(pass));
    test.order.push_back(pod);
  }
  // `pod` begins with its namespace, a letter.
  void enter(std::uint64_t bytes, const std::string& pod = "a/one") {
    gate.spawn(keep(*this, {pod.substr(0, 1), pod}, bytes));
  }
  // Lets waiters go on that may.
  void turn() {
    struct Wrap {
      static Task<bool> run(Reactor& reactor) {
        co_await reactor.sleep({});
        co_return true;
      }
    };
    reactor->runUntilComplete(Wrap::run(*reactor));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Gate gate{*reactor};
  ClientTransit transit{*reactor, 200};
  std::vector<ClientTransit::Pass> passes;
  std::vector<std::string> order;  // pods of `passes`, ended ones too
};

TEST_F(ClientTransitTest, ReadsBeyondTheLimitWaitInOrder) {
  enter(60);
  enter(50);
  enter(10);
  turn();
  EXPECT_EQ(passes.size(), 1u);
  EXPECT_EQ(transit.use().bytes, 60u);
  EXPECT_EQ(transit.use().waiting, 2u) << "the small one does not overtake";
  passes.clear();
  turn();
  EXPECT_EQ(passes.size(), 2u);
  EXPECT_EQ(transit.use().bytes, 60u);
  EXPECT_EQ(transit.use().waiting, 0u);
  EXPECT_EQ(transit.use().waited, 2u);
}

TEST_F(ClientTransitTest, MoreThanAPodMayHaveIsOnItsWayAlone) {
  enter(1000);
  enter(1);
  turn();
  EXPECT_EQ(passes.size(), 1u);
  passes.clear();
  turn();
  EXPECT_EQ(passes.size(), 1u);
  EXPECT_EQ(transit.use().bytes, 1u);
}

TEST_F(ClientTransitTest, APodThatTakesNothingLeavesRoomForOthers) {
  for (int i = 0; i < 1000; ++i) enter(50);
  turn();
  EXPECT_EQ(transit.use().bytes, 100u) << "half of it";
  enter(50, "a/two");
  turn();
  EXPECT_EQ(order.back(), "a/two");
  enter(50, "a/two");
  turn();
  EXPECT_EQ(transit.use().bytes, 150u) << "the namespace has three quarters";
  enter(50, "b/one");
  turn();
  EXPECT_EQ(order.back(), "b/one");
  // Each that ends lets another one go on, which ends too.
  while (!passes.empty()) {
    passes.clear();
    turn();
  }
  EXPECT_EQ(order.size(), 1003u);
}

TEST_F(ClientTransitTest, PodsThatWaitTakeTurns) {
  enter(100, "a/one");
  enter(100, "b/one");
  turn();
  for (const char* const pod : {"a/one", "a/one", "a/one", "b/one", "c/one"}) enter(100, pod);
  turn();
  EXPECT_EQ(transit.use().waiting, 5u);
  order.clear();
  while (!passes.empty()) {
    passes.erase(passes.begin());
    turn();
  }
  const std::vector<std::string> turns{"c/one", "a/one", "b/one", "a/one", "a/one"};
  EXPECT_EQ(order, turns) << "only c had nothing on its way";
}

TEST_F(ClientTransitTest, ALargeReadIsNotOvertaken) {
  enter(100, "a/one");
  enter(90, "b/one");
  turn();
  enter(60, "c/one");
  enter(5, "d/one");
  turn();
  EXPECT_EQ(passes.size(), 2u) << "the small one waits behind";
  passes.erase(passes.begin());
  turn();
  EXPECT_EQ(passes.size(), 3u);
}

TEST_F(ClientTransitTest, APassCountsUntilItsLastCopyGoes) {
  enter(100);
  ClientTransit::Pass copy = passes.front();
  passes.clear();
  EXPECT_EQ(transit.use().bytes, 100u);
  copy.reset();
  EXPECT_EQ(transit.use().bytes, 0u);
}

}  // namespace
}  // namespace hearth
