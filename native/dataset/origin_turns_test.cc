#include "dataset/origin_turns.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kRun = OriginTurns::kMinBytes;

struct OriginTurnsTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  OriginTurns turns;

  OriginTurns::Turn ask(std::uint64_t bytes = kRun) { return turns.ask(*reactor, bytes); }
  // As after a while of fetching.
  void warmUp() {
    OriginTurns::Turn first = ask();
    keptBusy = turns.force(*reactor, kRun);
    first.end(OriginTurns::kBytes);
  }
  // The owner of a turn learns of it on the reactor.
  void TearDown() override {
    keptBusy = OriginTurns::Turn();
    reactor->stop();
    reactor->run();
  }
  OriginTurns::Turn keptBusy;
};

TEST_F(OriginTurnsTest, BeginsWithOneRequestAndAllowsOneMoreForEachThatCameIn) {
  OriginTurns::Turn first = ask(), second = ask(), third = ask(), fourth = ask();
  EXPECT_TRUE(first.held());
  EXPECT_FALSE(second.held());
  first.end(kRun);
  EXPECT_TRUE(second.held());
  EXPECT_TRUE(third.held());
  EXPECT_FALSE(fourth.held());
}

TEST_F(OriginTurnsTest, BeginsAgainAfterNothingWasUnderWay) {
  ask().end(OriginTurns::kBytes);
  OriginTurns::Turn first = ask(), second = ask();
  EXPECT_TRUE(first.held());
  EXPECT_FALSE(second.held());
}

TEST_F(OriginTurnsTest, DividesTheBytesUnderWayByTheAgentsThatWantThem) {
  warmUp();
  for (const auto& [sharers, runs] : std::vector<std::pair<std::uint32_t, std::size_t>>{
           {1, 8}, {2, 4}, {4, 2}, {8, 1}, {99, 1}}) {
    turns.setSharers(sharers);
    std::vector<OriginTurns::Turn> asked;
    for (int i = 0; i < 10; ++i) asked.push_back(ask());
    std::size_t held = 0;
    for (const OriginTurns::Turn& turn : asked) held += turn.held() ? 1 : 0;
    EXPECT_EQ(held + 1, runs) << sharers;     // one was under way before
    while (!asked.empty()) asked.pop_back();  // the last first: none of those before gets a turn
  }
}

TEST_F(OriginTurnsTest, SmallFilesShareATurn) {
  std::vector<OriginTurns::Turn> asked;
  for (int i = 0; i < 9; ++i) asked.push_back(ask(kRun / 8));
  EXPECT_TRUE(asked[7].held());
  EXPECT_FALSE(asked[8].held());
}

TEST_F(OriginTurnsTest, WhatIsLargerThanAllOfItPassesAlone) {
  OriginTurns::Turn large = ask(10 * OriginTurns::kBytes), small = ask(1);
  EXPECT_TRUE(large.held());
  EXPECT_FALSE(small.held());
  large.end();
  EXPECT_TRUE(small.held());
}

TEST_F(OriginTurnsTest, AReaderNeverWaitsAndIsCounted) {
  OriginTurns::Turn background = ask();
  OriginTurns::Turn demand = turns.force(*reactor, kRun);
  EXPECT_TRUE(demand.held());
  background.end();
  EXPECT_FALSE(ask().held());
}

TEST_F(OriginTurnsTest, WhatAReaderJoinsHasItsTurnAtOnce) {
  OriginTurns::Turn first = ask(), second = ask(), third = ask();
  third.force();
  EXPECT_TRUE(third.held());
  EXPECT_FALSE(second.held());
  first.end();
  EXPECT_FALSE(second.held()) << "what was forced is counted";
  third.end(kRun);
  EXPECT_TRUE(second.held());
}

TEST_F(OriginTurnsTest, ForcingWhatWasNotAskedForIsNothing) {
  OriginTurns::Turn none;
  none.force();
  EXPECT_FALSE(none.asked());
}

TEST_F(OriginTurnsTest, WhoLeavesTheQueueMakesPlace) {
  OriginTurns::Turn first = ask(kRun / 2);
  OriginTurns::Turn large = ask(kRun), small = ask(kRun / 2);
  EXPECT_FALSE(small.held()) << "in the order of the calls";
  large.end();
  EXPECT_TRUE(small.held());
}

TEST_F(OriginTurnsTest, WaitsUntilItsTurnOrTheDeadlineAndKeepsItsPlace) {
  struct Waiting {
    static Task<bool> until(OriginTurns::Turn& turn, Clock::time_point deadline) {
      co_await turn.wait(deadline);
      co_return turn.held();
    }
  };
  OriginTurns::Turn first = ask(), second = ask();
  EXPECT_FALSE(reactor->runUntilComplete(Waiting::until(second, Clock::now() + 5ms)));
  OriginTurns::Turn third = ask();
  std::thread other([&] { first.end(); });  // as another shard
  EXPECT_TRUE(reactor->runUntilComplete(Waiting::until(second, Clock::now() + kHang)));
  other.join();
  EXPECT_FALSE(third.held());
}

}  // namespace
}  // namespace hearth
