#include "fetch/chunk_flight.h"

#include <gtest/gtest.h>

#include "fetch/testing_slots.h"

namespace hearth {
namespace {

using State = ChunkFlight::State;

constexpr State kFlightStates[] = {State::kWaiting,  State::kAsking, State::kFromOrigin,
                                   State::kFromPeer, State::kLanded, State::kEnded};

class ChunkFlightTest : public testing::Test {
 protected:
  // A flight in `state`; each state follows kWaiting.
  std::shared_ptr<ChunkFlight> flightIn(State state) {
    auto flight = std::make_shared<ChunkFlight>(*reactor, nullptr);
    EXPECT_TRUE(flight->enter(state));
    return flight;
  }

  const std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
};

TEST_F(ChunkFlightTest, LeavesLandedForEndedAloneAndEndedNever) {
  for (const State from : kFlightStates) {
    for (const State to : kFlightStates) {
      const auto flight = flightIn(from);
      const bool allowed = from == State::kEnded    ? false
                           : from == State::kLanded ? to == State::kEnded
                                                    : true;
      EXPECT_EQ(flight->enter(to), allowed) << int(from) << " to " << int(to);
      EXPECT_EQ(flight->state(), allowed ? to : from);
    }
  }
}

TEST_F(ChunkFlightTest, WakesThoseThatWaitForAnotherState) {
  for (const State from : kFlightStates) {
    if (from >= State::kLanded) continue;
    for (const State to : kFlightStates) {
      const auto flight = flightIn(from);
      const std::shared_ptr<Event> change = flight->change();
      EXPECT_FALSE(change->isSet());
      flight->enter(to);
      EXPECT_EQ(change->isSet(), to != from) << int(from) << " to " << int(to);
      EXPECT_FALSE(flight->change()->isSet()) << "of the state after";
    }
  }
}

TEST_F(ChunkFlightTest, KeepsTheFirstReasonAndStatus) {
  const auto flight = flightIn(State::kLanded);
  EXPECT_TRUE(flight->end(ChunkFlight::Reason::kForgone, Error{ErrorCode::kOutOfSpace, "no room"}));
  EXPECT_FALSE(flight->end(ChunkFlight::Reason::kStored, Status()));
  EXPECT_EQ(flight->reason(), ChunkFlight::Reason::kForgone);
  EXPECT_EQ(flight->status().code(), ErrorCode::kOutOfSpace);
}

}  // namespace
}  // namespace hearth
