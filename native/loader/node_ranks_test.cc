#include "loader/node_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>

#include "loader/rank_socket.h"

namespace hearth {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{60'000}, kShort{50};

class NodeRanksTest : public testing::Test {
 protected:
  using Met = Result<std::unique_ptr<NodeRanks>>;

  RankPlace place(unsigned rank, unsigned ranks, std::chrono::milliseconds timeout = kLong) const {
    return {rank, ranks, group_, timeout};
  }
  static std::future<Met> meet(const RankPlace& place, std::uint64_t agreed = 1) {
    return std::async(std::launch::async, [=] { return NodeRanks::meet(place, agreed, 4096); });
  }

  const std::string group_ = std::to_string(getpid()) + "-" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(NodeRanksTest, ShareMemoryAndLearnThatAllAreWell) {
  std::vector<std::future<Met>> meeting;
  for (unsigned rank = 0; rank < 3; ++rank) meeting.push_back(meet(place(rank, 3)));
  std::vector<std::unique_ptr<NodeRanks>> ranks;
  for (auto& met : meeting) {
    Met answer = met.get();
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    ranks.push_back(std::move(*answer));
  }
  ASSERT_EQ(pwrite(ranks[1]->memory().get(), "hello", 5, 100), 5);
  char text[6] = "";
  ASSERT_EQ(pread(ranks[2]->memory().get(), text, 5, 100), 5);
  EXPECT_STREQ(text, "hello");
  std::vector<std::future<Status>> finishing;
  for (auto& rank : ranks) {
    finishing.push_back(std::async(std::launch::async, [&] { return rank->finish({}); }));
  }
  for (auto& finished : finishing) EXPECT_TRUE(finished.get().ok());
}

TEST_F(NodeRanksTest, NobodyChangesTheMemoryAfterwards) {
  auto first = meet(place(0, 2)), second = meet(place(1, 2));
  const Met leader = first.get(), other = second.get();
  ASSERT_TRUE(leader.ok() && other.ok());
  const int memory = (*other)->memory().get();
  ASSERT_EQ(pwrite(memory, "hello", 5, 0), 5);
  auto finished = std::async(std::launch::async, [&] { return (*other)->finish({}); });
  ASSERT_TRUE((*leader)->finish({}).ok());
  ASSERT_TRUE(finished.get().ok());
  EXPECT_LT(pwrite(memory, "j", 1, 0), 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0), MAP_FAILED);
}

TEST_F(NodeRanksTest, ARankThatKeepsAWritableMappingFailsForAll) {
  auto first = meet(place(0, 2)), second = meet(place(1, 2));
  const Met leader = first.get(), other = second.get();
  ASSERT_TRUE(leader.ok() && other.ok());
  void* const kept =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (*other)->memory().get(), 0);
  ASSERT_NE(kept, MAP_FAILED);
  auto finished = std::async(std::launch::async, [&] { return (*other)->finish({}); });
  EXPECT_EQ((*leader)->finish({}).code(), ErrorCode::kInUse);
  EXPECT_EQ(finished.get().code(), ErrorCode::kInUse);
  munmap(kept, 4096);
}

TEST_F(NodeRanksTest, FailTogether) {
  auto first = meet(place(0, 2)), second = meet(place(1, 2));
  const Met leader = first.get(), other = second.get();
  ASSERT_TRUE(leader.ok() && other.ok());
  auto finished = std::async(std::launch::async, [&] {
    return (*other)->finish(Error{ErrorCode::kCorrupt, std::string(5'000, 'x')});
  });
  const Status all = (*leader)->finish({});
  EXPECT_EQ(all.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(all.error().message, HasSubstr("rank 1: xxx"));
  EXPECT_EQ(finished.get().code(), ErrorCode::kCorrupt);
}

TEST_F(NodeRanksTest, NoticeARankThatHasEnded) {
  auto first = meet(place(0, 3)), second = meet(place(1, 3)), third = meet(place(2, 3));
  const Met leader = first.get(), other = second.get();
  { const Met ended = third.get(); }
  auto finished = std::async(std::launch::async, [&] { return (*other)->finish({}); });
  const Status all = (*leader)->finish({});
  EXPECT_EQ(all.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(all.error().message, HasSubstr("rank 2"));
  EXPECT_EQ(finished.get().code(), ErrorCode::kUnavailable);
}

TEST_F(NodeRanksTest, NoticeThatTheFirstHasEnded) {
  auto first = meet(place(0, 2)), second = meet(place(1, 2));
  const Met other = second.get();
  { const Met ended = first.get(); }
  EXPECT_EQ((*other)->finish({}).code(), ErrorCode::kUnavailable);
}

TEST_F(NodeRanksTest, RefuseToLoadDifferentThings) {
  auto first = meet(place(0, 3)), second = meet(place(1, 3), 2), third = meet(place(2, 3));
  for (auto* meeting : {&first, &second, &third}) {
    const Met met = meeting->get();
    EXPECT_EQ(met.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(met.error().message, HasSubstr("rank 1 loads other files"));
  }
}

TEST_F(NodeRanksTest, RefuseTwoOfTheSameRank) {
  auto first = meet(place(0, 3)), second = meet(place(1, 3)), third = meet(place(1, 3));
  for (auto* meeting : {&first, &second, &third}) {
    EXPECT_THAT(meeting->get().error().message, HasSubstr("rank 1 came twice"));
  }
}

TEST_F(NodeRanksTest, EndEveryWait) {
  const Met alone = meet(place(0, 3, kShort)).get();
  EXPECT_EQ(alone.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(alone.error().message, HasSubstr("have not come: 1, 2"));
  const Met lost = meet(place(1, 2, kShort)).get();
  EXPECT_EQ(lost.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(meet(place(2, 2)).get().code(), ErrorCode::kInvalidArgument);
}

TEST_F(NodeRanksTest, MeetAgainUnderTheSameName) {
  for (int round = 0; round < 3; ++round) {
    auto first = meet(place(0, 2)), second = meet(place(1, 2));
    const Met leader = first.get(), other = second.get();
    ASSERT_TRUE(leader.ok() && other.ok());
    auto finished = std::async(std::launch::async, [&] { return (*other)->finish({}); });
    EXPECT_TRUE((*leader)->finish({}).ok());
    EXPECT_TRUE(finished.get().ok());
  }
}

TEST_F(NodeRanksTest, SkipProcessesThatEndBeforeTheySpeak) {
  auto first = meet(place(0, 2));
  { const auto silent = connectToRank(group_, std::chrono::steady_clock::now() + kLong); }
  auto second = meet(place(1, 2));
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(first.get().ok());
}

}  // namespace
}  // namespace hearth
