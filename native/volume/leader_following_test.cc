// Leaders with followers: copies of the log, and what the loss of a node leaves.
#include <gmock/gmock.h>

#include "volume/testing/service_cluster.h"

namespace hearth {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::ServiceCluster;

const std::vector<std::string> kCandidates{"b", "c"};

class LeaderFollowingTest : public testing::Test {
 protected:
  // `a` leads, and the store lists b and c.
  void begin() {
    ASSERT_TRUE(cluster.lead("a", 1, {}).ok());
    ASSERT_TRUE(cluster.make("first"));
    cluster.eventually([&] { return cluster.keepList(kCandidates).size() == 2; });
  }
  LogPosition end(const std::string& node, std::uint64_t epoch) {
    const auto reply =
        cluster.run(cluster.at(node).logState({testing_support::kClusterVolume, epoch}));
    EXPECT_TRUE(reply.ok());
    return reply.ok() ? reply->last : LogPosition{};
  }
  bool areEqual() {
    for (const LogFollowers::Row& row : cluster.at("a").followers())
      if (row.follower.lag != 0) return false;
    return true;
  }

  ServiceCluster cluster{{"a", "b", "c"}};
};

TEST_F(LeaderFollowingTest, AFollowerLeadsWithAllChangesAfterTheLeaderWasLost) {
  begin();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(cluster.make("f" + std::to_string(i)));
  cluster.eventually([&] { return areEqual(); });
  cluster.kill("a");
  EXPECT_EQ(end("b", 2), end("c", 2));
  ASSERT_TRUE(cluster.lead("b", 2, {"c"}).ok());
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(cluster.has("f" + std::to_string(i)));
  EXPECT_TRUE(cluster.make("after"));
  EXPECT_FALSE(cluster.make("f7"));
}

TEST_F(LeaderFollowingTest, AnOrderlyEndLeavesAllChangesToTheFollowers) {
  begin();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(cluster.make("f" + std::to_string(i)));
  cluster.stop("a");
  ASSERT_TRUE(cluster.lead("c", 2, {"b"}).ok());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(cluster.has("f" + std::to_string(i)));
}

TEST_F(LeaderFollowingTest, ALateFollowerLeavesTheListBeforeMoreChangesAreAnswered) {
  begin();
  cluster.cut = {"c"};
  ASSERT_TRUE(cluster.make("unconfirmed"));
  cluster.runVoid([](Reactor& reactor) -> Task<void> {
    co_await reactor.sleep(FollowerList::kMaxLag);
  }(*cluster.reactor));
  // The store still lists c.
  EXPECT_FALSE(cluster.make("not answered"));
  EXPECT_TRUE(cluster.has("unconfirmed"));
  EXPECT_THAT(cluster.keepList(kCandidates), ElementsAre("b"));
  EXPECT_TRUE(cluster.make("answered"));
  EXPECT_EQ(cluster.at("a").followersDropped(), 1u);
}

TEST_F(LeaderFollowingTest, NothingIsAnsweredBeforeListedFollowersHaveTheFirstRecordOfTheTerm) {
  begin();
  cluster.cut = {"b"};
  ASSERT_TRUE(cluster.lead("a", 2, {"b", "c"}).ok());
  EXPECT_FALSE(cluster.has("first"));
  EXPECT_THAT(cluster.keepList(kCandidates), ElementsAre("c"));
  EXPECT_TRUE(cluster.has("first"));
}

TEST_F(LeaderFollowingTest, ALeaderThatReturnsGetsTheLogAnewAndLosesWhatNobodyElseHas) {
  begin();
  cluster.cut = {"a"};
  ASSERT_TRUE(cluster.make("of a alone"));
  cluster.kill("a");
  ASSERT_TRUE(cluster.lead("b", 2, {"c"}).ok());
  ASSERT_TRUE(cluster.make("of b"));
  cluster.start("a");
  EXPECT_EQ(end("a", 2).epoch, 1u);
  cluster.eventually([&] { return cluster.keepList({"a"}) == std::vector<std::string>{"a"}; });
  EXPECT_EQ(end("a", 2).epoch, 2u);
  cluster.kill("b");
  ASSERT_TRUE(cluster.lead("a", 3, {}).ok());
  EXPECT_TRUE(cluster.has("of b"));
  EXPECT_FALSE(cluster.has("of a alone"));
}

TEST_F(LeaderFollowingTest, AFollowerTakesRecordsFromTheLeaderOfTheStoreAlone) {
  begin();
  const LogPosition before = end("b", 1);
  const std::vector<std::byte> message = encode(
      LogInstallMessage{.volume = testing_support::kClusterVolume, .epoch = 9, .checkpoint = {}});
  const auto type = static_cast<std::uint16_t>(VolumeControl::kLogInstall);
  const auto answer = cluster.run(cluster.at("b").onControl("c", {type, message}));
  EXPECT_EQ(answer.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(end("b", 1), before);
}

}  // namespace
}  // namespace hearth
