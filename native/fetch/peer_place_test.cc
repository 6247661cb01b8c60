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
  co_await place.take(urgency, 2);
  held.push_back(place.held());
}

Task<std::vector<bool>> queueAndJoin(Reactor& reactor) {
  PeerPlaces places(reactor, 2);
  std::vector<bool> held;
  Urgency background(Priority::kBackground), joined(Priority::kBackground);
  Gate gate(reactor);
  {
    PeerPlace first(places);
    co_await first.take(background, 1);
    gate.spawn(takePlace(places, joined, held));
    gate.spawn(takePlace(places, background, held));
    joined.raise();
    co_await reactor.sleep(1ms);
  }
  co_await gate.close();
  co_return held;
}

TEST_F(PeerPlaceTest, WhatAReaderJoinsNeedsNoneAndOthersGetTheirs) {
  EXPECT_EQ(reactor->runUntilComplete(queueAndJoin(*reactor)), (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace hearth
