// Two endpoints on the fabric inside the process.
#include "verbs/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <numeric>
#include <random>

#include "verbs/testing/endpoint_pair.h"

namespace hearth {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing_verbs::EndpointPair;
using testing_verbs::Fabric;

constexpr std::size_t kMega = std::size_t{1} << 20;

TEST(EndpointTest, MovesFourMegabytesIntoAWindow) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 4 * kMega);
  const auto into = pair.memory(pair.right, 4 * kMega);
  testing_verbs::fill(*from, 1);
  const std::uint32_t key = pair.openWindow({into, 0, into->size()});
  ASSERT_NE(key, 0u);
  pair.write(pair.left, {from, 0, from->size()}, into->address(), key, 77);
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kOk));
  EXPECT_TRUE(std::ranges::equal(from->bytes(), into->bytes()));
  EXPECT_THAT(pair.right.immediates, ElementsAre(77u));
  EXPECT_EQ(pair.left.endpoint->counts().bytesWritten, 4 * kMega);
}

// True: a linear congruential generator whose state ends in the 24 bits of `number` gives `next`.
bool follows(std::uint32_t number, std::uint32_t next) {
  for (std::uint32_t high = 0; high < 1u << 7; ++high) {
    std::minstd_rand random((high << 24) | number);
    if ((random() & 0xffffff) == next) return true;
  }
  return false;
}

TEST(EndpointTest, APacketNumberDoesNotTellTheNextOne) {
  std::vector<std::uint32_t> numbers;
  for (int count = 0; count < 8; ++count) {
    const EndpointPair pair;
    for (const EndpointPair::Side* const side : {&pair.left, &pair.right})
      numbers.push_back(side->endpoint->address().firstPacket);
  }
  int told = 0;
  for (std::size_t at = 1; at < numbers.size(); ++at)
    told += follows(numbers[at - 1], numbers[at]) ? 1 : 0;
  EXPECT_LE(told, 1);  // by chance once in 130,000 pairs
  std::ranges::sort(numbers);
  EXPECT_GE(std::ranges::unique(numbers).begin() - numbers.begin(), 15);
}

TEST(EndpointTest, MovesManyPiecesByAChain) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, kMega);
  const auto into = pair.memory(pair.right, kMega);
  testing_verbs::fill(*from, 2);
  const std::uint32_t key = pair.openWindow({into, 0, kMega});
  std::vector<MemorySlice> pieces;
  constexpr std::size_t kPieces = 32;  // four fit into one work request
  for (std::size_t at = 0; at < kPieces; ++at)
    pieces.push_back({from, at * kMega / kPieces, kMega / kPieces});
  pair.write(pair.left, MemoryVector(pieces), into->address(), key, 1);
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kOk));
  EXPECT_TRUE(std::ranges::equal(from->bytes(), into->bytes()));
  EXPECT_EQ(pair.left.endpoint->counts().requests, kPieces / 4);
}

TEST(EndpointTest, SignalsEveryKthRequestOfABatch) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, kMega);
  const auto into = pair.memory(pair.right, kMega);
  const std::uint32_t key = pair.openWindow({into, 0, kMega});
  constexpr std::size_t kRequests = 32;
  std::vector<std::unique_ptr<Transfer>> batch;
  for (std::size_t at = 0; at < kRequests; ++at) {
    const std::uint64_t offset = at * kMega / kRequests;
    batch.push_back(
        pair.writing(MemorySlice{from, offset, kMega / kRequests}, into->address() + offset, key));
  }
  pair.left.endpoint->post(std::move(batch));
  pair.settleAll();
  EXPECT_EQ(pair.outcomes.size(), kRequests);
  EXPECT_THAT(pair.outcomes, Each(ErrorCode::kOk));
  EXPECT_EQ(pair.left.endpoint->counts().signalled, kRequests / pair.options.signalEvery);
}

TEST(EndpointTest, SendsSmallMessagesInlineFromMemoryThatIsNotRegistered) {
  EndpointPair pair;
  const std::string text = "are you there?";
  pair.send(pair.left, text);
  pair.send(pair.right, "yes");
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kOk, ErrorCode::kOk));
  EXPECT_THAT(pair.right.messages, ElementsAre(text));
  EXPECT_THAT(pair.left.messages, ElementsAre("yes"));
}

TEST(EndpointTest, CopiesSmallMessagesWhereTheDeviceTakesNoneInline) {
  EndpointPair pair({.left = {.name = "left0", .address = 1, .inlineBytes = 0},
                     .right = {.name = "right0", .address = 2, .inlineBytes = 32}});
  // More than may be under way at a time: each copy's room comes back.
  const std::size_t all = 3 * std::size_t{pair.options.sendRequests};
  for (std::size_t at = 0; at < all; ++at) {
    pair.send(pair.left, std::to_string(at));
    pair.settleAll();
    pair.left.endpoint->addCredit(1);
  }
  EXPECT_EQ(pair.outcomes.size(), all);
  EXPECT_THAT(pair.outcomes, Each(ErrorCode::kOk));
  ASSERT_EQ(pair.right.messages.size(), all);
  EXPECT_EQ(pair.right.messages.back(), std::to_string(all - 1));
  // Of the right side's messages a part is inline.
  const std::string longer(40, 'x');
  pair.send(pair.right, "short");
  pair.send(pair.right, longer);
  pair.settleAll();
  EXPECT_THAT(pair.left.messages, ElementsAre("short", longer));
  EXPECT_TRUE(pair.left.endpoint->usable() && pair.right.endpoint->usable());
}

TEST(EndpointTest, KeepsTheRoomOfCopiesThatAreUnderWay) {
  EndpointPair pair({.left = {.name = "left0", .address = 1, .inlineBytes = 0}});
  pair.fabric.judgeBy(
      [](std::uint32_t, ibv_wr_opcode) -> Fabric::Verdict { return {.held = true}; });
  const std::size_t all = 2 * std::size_t{pair.options.sendRequests};
  pair.left.endpoint->addCredit(static_cast<std::uint32_t>(all));
  for (std::size_t at = 0; at < all; ++at) pair.send(pair.left, std::to_string(at));
  EXPECT_TRUE(pair.outcomes.empty());
  pair.left.endpoint->fail({ErrorCode::kDeadlineExceeded, "late"});
  EXPECT_EQ(pair.outcomes.size(), all);
  pair.poll();
  EXPECT_TRUE(pair.left.endpoint->drained());
}

TEST(EndpointTest, RefusesALongMessageFromMemoryThatTheDeviceDoesNotKnow) {
  EndpointPair pair;
  pair.send(pair.left, std::string(pair.options.unregisteredBytes + 1, 'x'));
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnsupported));
}

TEST(EndpointTest, WaitsForCreditBeforeItSends) {
  EndpointPair pair;
  const std::size_t all = pair.options.receives + 3;
  for (std::size_t at = 0; at < all; ++at) pair.send(pair.left, std::to_string(at));
  pair.settleAll();
  EXPECT_EQ(pair.outcomes.size(), pair.options.receives);
  pair.left.endpoint->addCredit(3);
  pair.settleAll();
  EXPECT_EQ(pair.outcomes.size(), all);
  EXPECT_EQ(pair.right.messages.size(), all);
  EXPECT_EQ(pair.right.messages.back(), std::to_string(all - 1));
}

TEST(EndpointTest, RefusesMemoryThatTheDeviceDoesNotKnow) {
  EndpointPair pair;
  std::vector<std::byte> unknown(4096);
  pair.write(pair.left, MemorySlice::of(unknown), 4096, 1);
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnsupported));
  EXPECT_TRUE(pair.left.endpoint->usable());
}

TEST(EndpointTest, AWindowOpensItsOwnBytesOnly) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 8192);
  const auto into = pair.memory(pair.right, 3 * 8192);
  testing_verbs::fill(*from, 3);
  const std::uint32_t key = pair.openWindow({into, 8192, 8192});
  pair.write(pair.left, {from, 0, 8192}, into->address() + 8192 + 1, key);
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kPermissionDenied));
  EXPECT_THAT(into->bytes(), Each(std::byte{0}));
}

TEST(EndpointTest, ARegionsOwnKeyOpensNothing) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 8192);
  const auto into = pair.memory(pair.right, 8192);
  pair.write(pair.left, {from, 0, 8192}, into->address(),
             pair.right.device->registeredAs(*into)->rkey);
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kPermissionDenied));
}

TEST(EndpointTest, AClosedWindowOpensNothing) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 8192);
  const auto into = pair.memory(pair.right, 8192);
  testing_verbs::fill(*from, 4);
  const std::uint32_t key = pair.openWindow({into, 0, 8192});
  pair.closeWindow();
  EXPECT_FALSE(pair.window->isOpen());
  pair.write(pair.left, {from, 0, 8192}, into->address(), key);
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kPermissionDenied));
  EXPECT_THAT(into->bytes(), Each(std::byte{0}));
}

TEST(EndpointTest, AFailureIsThatOfItsOwnRequest) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 8 * 4096);
  const auto into = pair.memory(pair.right, 8 * 4096);
  const std::uint32_t key = pair.openWindow({into, 0, into->size()});
  int executed = 0;
  pair.fabric.judgeBy([&](std::uint32_t, ibv_wr_opcode) -> Fabric::Verdict {
    return {.status = ++executed == 4 ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS};
  });
  pair.writeEach(*from, *into, key, 8);
  pair.settleAll();
  using enum ErrorCode;
  EXPECT_THAT(pair.outcomes, ElementsAre(kOk, kOk, kOk, kProtocolError, kProtocolError,
                                         kProtocolError, kProtocolError, kProtocolError));
  EXPECT_FALSE(pair.left.endpoint->usable());
  EXPECT_TRUE(pair.left.endpoint->drained());
}

TEST(EndpointTest, ARefusedRequestLeavesThoseAroundItAlone) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 8 * 4096);
  const auto into = pair.memory(pair.right, 8 * 4096);
  testing_verbs::fill(*from, 5);
  const std::uint32_t key = pair.openWindow({into, 0, into->size()});
  int posted = 0;
  pair.fabric.judgePostsBy(
      [&](std::uint32_t, ibv_wr_opcode) { return ++posted == 3 ? ENOMEM : 0; });
  pair.writeEach(*from, *into, key, 8);
  pair.settleAll();
  std::ranges::sort(pair.outcomes);
  EXPECT_EQ(std::ranges::count(pair.outcomes, ErrorCode::kOk), 7);
  EXPECT_TRUE(pair.left.endpoint->usable());
  EXPECT_FALSE(std::ranges::equal(from->bytes().subspan(2 * 4096, 4096),
                                  into->bytes().subspan(2 * 4096, 4096)));
  EXPECT_TRUE(std::ranges::equal(from->bytes().subspan(3 * 4096), into->bytes().subspan(3 * 4096)));
}

TEST(EndpointTest, AMarkerCompletesAPartialPost) {
  EndpointPair pair;
  const auto from = pair.memory(pair.left, 3 * 4096);
  const auto into = pair.memory(pair.right, 3 * 4096);
  const std::uint32_t key = pair.openWindow({into, 0, into->size()});
  int posted = 0;
  pair.fabric.judgePostsBy([&](std::uint32_t, ibv_wr_opcode) {
    return ++posted == 3 ? ENOMEM : 0;  // the last one, which is the signalled one
  });
  pair.writeEach(*from, *into, key, 3);
  pair.settleAll();
  EXPECT_EQ(std::ranges::count(pair.outcomes, ErrorCode::kOk), 2);
  EXPECT_EQ(pair.outcomes.size(), 3u);
  EXPECT_EQ(pair.left.endpoint->counts().markers, 1u);
  EXPECT_TRUE(pair.left.endpoint->drained());
}

TEST(EndpointTest, MemoryIsKeptUntilTheDeviceLetsGo) {
  EndpointPair pair;
  auto from = pair.memory(pair.left, 4096);
  const auto into = pair.memory(pair.right, 4096);
  const std::uint32_t key = pair.openWindow({into, 0, 4096});
  pair.fabric.judgeBy(
      [](std::uint32_t, ibv_wr_opcode) -> Fabric::Verdict { return {.held = true}; });
  const std::weak_ptr<MemoryRegion> watched = from;
  pair.write(pair.left, {std::move(from), 0, 4096}, into->address(), key);
  pair.left.endpoint->fail({ErrorCode::kDeadlineExceeded, "late"});
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kDeadlineExceeded));
  EXPECT_FALSE(watched.expired());
  pair.poll();  // the flush
  EXPECT_TRUE(watched.expired());
  EXPECT_TRUE(pair.left.endpoint->drained());
}

TEST(EndpointTest, ADeviceThatIsGoneReleasesMemoryWithTheEndpoint) {
  EndpointPair pair;
  auto from = pair.memory(pair.left, 4096);
  const auto into = pair.memory(pair.right, 4096);
  const std::uint32_t key = pair.openWindow({into, 0, 4096});
  pair.fabric.judgeBy(
      [](std::uint32_t, ibv_wr_opcode) -> Fabric::Verdict { return {.held = true}; });
  const std::weak_ptr<MemoryRegion> watched = from;
  pair.write(pair.left, {std::move(from), 0, 4096}, into->address(), key);
  pair.fabric.remove(1);
  EXPECT_TRUE(pair.left.device->takeEvents().empty());
  EXPECT_FALSE(pair.left.device->usable());
  pair.left.endpoint->fail({ErrorCode::kUnavailable, "the device is gone"});
  pair.poll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnavailable));
  EXPECT_FALSE(watched.expired());
  pair.left.endpoint.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(EndpointTest, AnUnknownCompletionFailsTheEndpoint) {
  EndpointPair pair;
  pair.fabric.forgeCompletion(pair.left.endpoint->address().queuePair, 123456);
  pair.poll();
  EXPECT_FALSE(pair.left.endpoint->usable());
  EXPECT_EQ(pair.left.endpoint->failure().code(), ErrorCode::kInternal);
}

TEST(EndpointTest, AReceiverWithoutReceivesIsNotAskedForEver) {
  EndpointPair pair;
  pair.right.endpoint->fail({ErrorCode::kUnavailable, "stopped"});
  pair.send(pair.left, "hello");
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnavailable));
}

TEST(EndpointTest, ALinkThatIsDownFailsWhatIsPosted) {
  EndpointPair pair;
  pair.fabric.setLink(2, false);
  EXPECT_TRUE(pair.right.device->takeEvents().empty());
  EXPECT_FALSE(pair.right.device->usable());
  pair.send(pair.left, "hello");
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnavailable));
  pair.fabric.setLink(2, true);
  EXPECT_TRUE(pair.right.device->takeEvents().empty());
  EXPECT_TRUE(pair.right.device->usable());
}

TEST(EndpointTest, WrongParametersAreFoundByTheFirstData) {
  EndpointPair pair({.connects = false});
  EndpointAddress wrong = pair.right.endpoint->address();
  wrong.gid[15] ^= 1;
  ASSERT_TRUE(pair.left.endpoint->connect(wrong).ok());
  ASSERT_TRUE(pair.right.endpoint->connect(pair.left.endpoint->address()).ok());
  pair.send(pair.left, "hello");
  pair.settleAll();
  EXPECT_THAT(pair.outcomes, ElementsAre(ErrorCode::kUnavailable));
}

TEST(EndpointTest, AnArmedQueueWakesItsDescriptor) {
  EndpointPair pair;
  ASSERT_TRUE(pair.right.queue->arm().ok());
  pollfd waits{.fd = pair.right.queue->descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waits, 1, 0), 0);
  pair.send(pair.left, "wake up");
  EXPECT_EQ(::poll(&waits, 1, 0), 1);
  pair.right.queue->takeEvents();
  EXPECT_EQ(::poll(&waits, 1, 0), 0);
  pair.settleAll();
  EXPECT_THAT(pair.right.messages, ElementsAre("wake up"));
}

}  // namespace
}  // namespace hearth
