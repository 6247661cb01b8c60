#include "fetch/peer_place.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

using namespace std::chrono_literals;

struct PeerPlaceTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
};

Task<void> takePlace(PeerPlaces& places, Urgency& urgency, std::vector<bool>& held) {
  PeerPlace place(places);
  Task<void> taking = place.take(urgency, 2);
  co_await taking;
  held.push_back(place.held());
}

Task<std::vector<bool>> queueAndJoin(Reactor& reactor) {
  PeerPlaces places(reactor, 2);
  std::vector<bool> held;
  Urgency background(Priority::kBackground), joined(Priority::kBackground);
  Gate gate(reactor);
  {
    PeerPlace first(places);
    Task<void> taking = first.take(background, 1);
    co_await taking;
    gate.spawn(takePlace(places, joined, held));
    gate.spawn(takePlace(places, background, held));
    joined.raise();
    co_await reactor.sleep(1ms);
  }
  Task<void> closing = gate.close();
  co_await closing;
  co_return held;
}

TEST_F(PeerPlaceTest, WhatAReaderJoinsNeedsNoneAndOthersGetTheirs) {
  EXPECT_EQ(reactor->runUntilComplete(queueAndJoin(*reactor)), (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace hearth
