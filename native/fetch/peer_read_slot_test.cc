#include "fetch/peer_read_slot.h"

#include <gtest/gtest.h>

#include <vector>

namespace hearth {
namespace {

using namespace std::chrono_literals;

struct PeerReadSlotTest : testing::Test {
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
};

Task<void> takeSlot(PeerReadSlots& slots, Urgency& urgency, std::vector<bool>& held) {
  PeerReadSlot slot(slots);
  co_await slot.take(urgency, 2);
  held.push_back(slot.held());
}

Task<std::vector<bool>> queueAndJoin(Reactor& reactor) {
  PeerReadSlots slots(reactor, 2);
  std::vector<bool> held;
  Urgency background(Priority::kBackground), joined(Priority::kBackground);
  Gate gate(reactor);
  {
    PeerReadSlot first(slots);
    co_await first.take(background, 1);
    gate.spawn(takeSlot(slots, joined, held));
    gate.spawn(takeSlot(slots, background, held));
    joined.raise();
    co_await reactor.sleep(1ms);
  }
  co_await gate.close();
  co_return held;
}

TEST_F(PeerReadSlotTest, ARaisedReadNeedsNoSlotAndOthersGetTheirs) {
  EXPECT_EQ(reactor->runUntilComplete(queueAndJoin(*reactor)), (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace hearth
