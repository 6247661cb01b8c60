#include "transport/write_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// One write, from the request for its place on.
struct OrderedWrite {
  [[nodiscard]] bool has() const { return place && place->ok(); }
  [[nodiscard]] ErrorCode code() const { return place ? place->code() : ErrorCode::kOk; }
  // Gives the write's place back.
  void leave() { place.reset(); }

  std::optional<Result<std::unique_ptr<WriteOrder::Place>>> place;  // set once decided
  Interest interest;
  int losses = 0, pressed = 0;
};

class WriteOrderTest : public testing::Test {
 protected:
  ~WriteOrderTest() override {
    for (const auto& write : writes) write->interest.end();
    for (const auto& write : writes) write->leave();
    reactor->runUntilComplete(closed(*this));
    for (const auto& write : writes) write->leave();
  }
  static Task<bool> closed(WriteOrderTest& test) {
    co_await test.gate.close();
    co_return true;
  }
  // Without a grace a waiting write looks at every turn.
  void start(Clock::duration grace) { order.emplace(*reactor, grace); }
  OrderedWrite& ask(const std::string& node, std::uint64_t generation, std::uint64_t offset = 0,
                    std::uint32_t length = kBlockBytes, ContentKey key = {}) {
    writes.push_back(std::make_unique<OrderedWrite>());
    gate.spawn(enter(*this, *writes.back(), node,
                     {.key = key, .offset = offset, .length = length, .generation = generation}));
    return *writes.back();
  }
  static Task<void> enter(WriteOrderTest& test, OrderedWrite& write, std::string node,
                          WriteRequest request) {
    Task<Result<std::unique_ptr<WriteOrder::Place>>> entering =
        test.order->enter(std::move(node), std::move(request), write.interest,
                          [&write](bool pressing) { ++(pressing ? write.pressed : write.losses); });
    write.place.emplace(co_await entering);
  }
  void turn(int count = 4) { reactor->runUntilComplete(turns(*reactor, count)); }
  static Task<bool> turns(Reactor& reactor, int count) {
    for (int i = 0; i < count; ++i) co_await reactor.sleep(Clock::duration::zero());
    co_return true;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Gate gate{*reactor};
  std::optional<WriteOrder> order{std::in_place, *reactor, 1h};
  std::vector<std::unique_ptr<OrderedWrite>> writes;
};

TEST_F(WriteOrderTest, ANewerGenerationTakesThePlaceWhenTheOlderLeavesIt) {
  OrderedWrite& older = ask("a", 1);
  ASSERT_TRUE(older.has());
  OrderedWrite& newer = ask("a", 2);
  turn();
  EXPECT_EQ(older.losses, 1);
  EXPECT_FALSE(newer.place.has_value()) << "its memory is in use";
  older.leave();
  turn();
  EXPECT_TRUE(newer.has());
  EXPECT_EQ(ask("b", 1).code(), ErrorCode::kConflict);
  EXPECT_EQ(newer.losses, 0);
}

// Holds whichever asks first, and whether that has its place or waits for it.
TEST_F(WriteOrderTest, TheGreaterNameGoesOnWithEqualGenerations) {
  for (const bool waits : {false, true}) {
    for (const bool greaterFirst : {false, true}) {
      SCOPED_TRACE(testing::Message() << waits << greaterFirst);
      OrderedWrite* const holder = waits ? &ask("z", 6) : nullptr;
      OrderedWrite& first = ask(greaterFirst ? "node-b" : "node-a", 7);
      OrderedWrite& second = ask(greaterFirst ? "node-a" : "node-b", 7);
      turn();
      OrderedWrite& winner = greaterFirst ? first : second;
      OrderedWrite& loser = greaterFirst ? second : first;
      EXPECT_EQ(winner.losses, 0);
      EXPECT_EQ(loser.losses, greaterFirst ? 0 : 1);
      EXPECT_EQ(loser.has(), !greaterFirst && !waits);
      if (holder != nullptr) holder->leave();
      if (loser.has()) {
        loser.leave();
      } else {
        EXPECT_EQ(loser.code(), ErrorCode::kConflict);
      }
      turn();
      EXPECT_TRUE(winner.has());
      winner.leave();
    }
  }
}

TEST_F(WriteOrderTest, ASecondRequestReplacesTheFirst) {
  OrderedWrite& first = ask("a", 3);
  OrderedWrite& again = ask("a", 3);
  EXPECT_EQ(first.losses, 1);
  first.leave();
  turn();
  EXPECT_TRUE(again.has());
}

// The write would lose to the newer one, so it does not end the other.
TEST_F(WriteOrderTest, ARefusedWriteCostsNoneItsPlace) {
  OrderedWrite& old = ask("a", 1);
  OrderedWrite& newest = ask("a", 3, kBlockBytes);
  EXPECT_EQ(ask("a", 2, 0, 2 * kBlockBytes).code(), ErrorCode::kConflict);
  EXPECT_EQ(old.losses, 0);
  EXPECT_EQ(newest.losses, 0);
}

TEST_F(WriteOrderTest, WritesApartGoOnSideBySide) {
  ContentKey other;
  other.bytes[0] = 1;
  EXPECT_TRUE(ask("a", 1).has());
  EXPECT_TRUE(ask("a", 2, kBlockBytes).has());
  EXPECT_TRUE(ask("a", 3, kChunkBytes).has());
  EXPECT_TRUE(ask("a", 4, 0, kBlockBytes, other).has());
}

// Changes in other chunks wake no waiting write: it would see that it is no longer wanted.
TEST_F(WriteOrderTest, OnlyAChangeInItsChunkWakesAWaitingWrite) {
  OrderedWrite& holder = ask("a", 1);
  OrderedWrite& neighbour = ask("a", 1, kBlockBytes);
  OrderedWrite& waiting = ask("a", 2);
  waiting.interest.end();
  ContentKey otherKey;
  otherKey.bytes[31] = 1;
  ask("a", 1, kChunkBytes).leave();
  ask("a", 1, 0, kBlockBytes, otherKey).leave();
  turn();
  EXPECT_FALSE(waiting.place.has_value());
  neighbour.leave();
  turn();
  EXPECT_EQ(waiting.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(holder.has());
}

TEST_F(WriteOrderTest, PressesAWriteThatDoesNotLeave) {
  start(Clock::duration::zero());
  OrderedWrite& stuck = ask("a", 1);
  OrderedWrite& newer = ask("a", 2);
  turn();
  EXPECT_GE(stuck.pressed, 1);
  newer.interest.end();
  turn();
  EXPECT_EQ(newer.code(), ErrorCode::kCancelled);
}

TEST_F(WriteOrderTest, OneNodeHasNoMoreThanItsPartWaiting) {
  OrderedWrite& holder = ask("a", 1, 0, kChunkBytes);
  constexpr std::size_t kBlocks = kChunkBytes / kBlockBytes;
  std::vector<OrderedWrite*> waiting;
  // Counts waiting writes in all chunks of a node.
  for (std::size_t i = 0; i < kWritesWaitingPerNode; ++i) {
    const std::uint64_t chunk = i / kBlocks * kChunkBytes;
    if (i % kBlocks == 0 && chunk > 0) ask("b", 1, chunk, kChunkBytes);
    waiting.push_back(&ask("a", 2, chunk + i % kBlocks * kBlockBytes));
    EXPECT_FALSE(waiting.back()->place.has_value()) << i;
  }
  OrderedWrite& refused = ask("a", 3, 0);
  ASSERT_EQ(refused.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(refused.place->error().message,
              HasSubstr("a has " + std::to_string(kWritesWaitingPerNode) + " writes here"));
  EXPECT_THAT(refused.place->error().message, HasSubstr("try again"));
  EXPECT_FALSE(waiting.front()->place.has_value()) << "it has lost nothing to what was refused";
  OrderedWrite& ofOther = ask("b", 3, 0);
  EXPECT_FALSE(ofOther.place.has_value()) << "another node may wait";
  turn();
  EXPECT_EQ(waiting.front()->code(), ErrorCode::kConflict);
  OrderedWrite& inItsPlace = ask("a", 4, 0);
  EXPECT_FALSE(inItsPlace.place.has_value());
  holder.leave();
  turn();
  EXPECT_TRUE(inItsPlace.has());
  EXPECT_TRUE(waiting[1]->has());
}

}  // namespace
}  // namespace hearth
