#include "transport/send_lanes.h"

#include <gtest/gtest.h>

#include <string>

#include "transport/limits.h"

namespace hearth {
namespace {

const std::vector<std::byte> kLaneBytes(kSliceToSendBytes);

SendItem laneItem(std::uint64_t id, std::size_t size, RequestClass requestClass) {
  return {.frame = {},
          .payload = std::span(kLaneBytes).first(size),
          .keep = nullptr,
          .requestId = id,
          .requestClass = requestClass};
}

struct SendLanesTest : testing::Test {
  void push(std::uint64_t id, std::size_t size, RequestClass requestClass) {
    lanes.push(laneItem(id, size, requestClass));
  }
  // Returns the item that goes next; a large one stays, as if it had more slices.
  std::uint64_t turn() {
    const auto next = lanes.next([this](const SendItem& item) { return item.requestId != away; });
    if (!next) return 0;
    lanes.hadTurn(next->lane);
    SendItem item = lanes.take(*next);
    const std::uint64_t id = item.requestId;
    if (next->lane != SendLane::kSmall) lanes.putBack(next->lane, std::move(item));
    return id;
  }
  std::string turns(int count) {
    std::string all;
    while (count-- > 0) all += std::to_string(turn());
    return all;
  }
  SendLanes lanes;
  std::uint64_t away = 0;  // is not ready
};

TEST_F(SendLanesTest, ASmallAnswerWaitsForOneSliceAndStarvesNone) {
  push(1, kSliceToSendBytes, RequestClass::kDemand);
  for (std::uint64_t id = 2; id <= 4; ++id) push(id, 4096, RequestClass::kDemand);
  EXPECT_EQ(turns(7), "2131411");
}

TEST_F(SendLanesTest, TheBackgroundHasOneTurnInEight) {
  push(1, kSliceToSendBytes, RequestClass::kWarm);
  push(2, kSliceToSendBytes, RequestClass::kDemand);
  push(3, kSliceToSendBytes, RequestClass::kRepair);
  EXPECT_EQ(turns(17), "22222221222222212");
}

TEST_F(SendLanesTest, ASmallAnswerForReadAheadIsBackground) {
  push(1, 4096, RequestClass::kWarm);
  push(2, kSliceToSendBytes, RequestClass::kDemand);
  EXPECT_EQ(turns(3), "222");
}

TEST_F(SendLanesTest, ItemsOfALaneGoInOrderAndPassOnesThatAreNotReady) {
  push(1, kSliceToSendBytes, RequestClass::kDemand);
  push(2, kSliceToSendBytes, RequestClass::kDemand);
  EXPECT_EQ(turns(2), "11");
  away = 1;
  EXPECT_EQ(turns(2), "22");
  away = 0;
  EXPECT_EQ(turns(2), "22") << "what has begun goes on";
}

TEST_F(SendLanesTest, FramesWithoutAPayloadAreSmallWhateverTheyAreFor) {
  push(1, kSliceToSendBytes, RequestClass::kDemand);
  push(2, 0, RequestClass::kRepair);
  EXPECT_EQ(turns(2), "21");
  EXPECT_FALSE(lanes.find(2).has_value());
  EXPECT_TRUE(lanes.find(1).has_value());
  EXPECT_EQ(lanes.size(), 1u);
}

}  // namespace
}  // namespace hearth
