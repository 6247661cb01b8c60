#include "engine/client_transit.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

struct ClientTransitTest : testing::Test {
  // Enters, and keeps its pass.
  static Task<void> keep(ClientTransitTest& test, std::uint64_t bytes) {
    ClientTransit::Pass pass = co_await test.transit.enter(bytes);
    test.passes.push_back(std::move(pass));
  }
  void enter(std::uint64_t bytes) { gate.spawn(keep(*this, bytes)); }
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
  ClientTransit transit{*reactor, 100};
  std::vector<ClientTransit::Pass> passes;
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

TEST_F(ClientTransitTest, MoreThanTheLimitIsOnItsWayAlone) {
  enter(1000);
  enter(1);
  turn();
  EXPECT_EQ(passes.size(), 1u);
  passes.clear();
  turn();
  EXPECT_EQ(passes.size(), 1u);
  EXPECT_EQ(transit.use().bytes, 1u);
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
