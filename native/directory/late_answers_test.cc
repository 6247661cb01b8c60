// Leave to evict, while some agents are slow, and reports that come late.
#include <gmock/gmock.h>

#include "base/testing/moved_clock.h"
#include "directory/testing/copy_agents.h"

namespace hearth {
namespace {

using directory_testing::CopyAgents;
using directory_testing::kCopySize;
using directory_testing::kWholeCopy;

using Answer = ReleaseClient::Answer;

struct LateAnswersTest : testing::Test {
  static constexpr std::chrono::milliseconds kStep{10};

  void TearDown() override { pass(std::chrono::seconds(10)); }

  static Task<void> ask(CopyAgents::Agent& agent, ContentKey key, Answer& answer,
                        std::size_t& open) {
    Task<ReleaseClient::Asked> asking = agent.leave.ask(key, kCopySize, 0);
    const ReleaseClient::Asked asked = co_await asking;
    agent.leave.kept(key, asked.number);
    answer = asked.answer;
    --open;
  }
  // All of these at the same time, while time passes; none evicts. How long it took is `passed`: by
  // this clock alone, as the machine may be busy.
  std::vector<Answer> askAll(const std::vector<std::string>& who) {
    std::vector<Answer> answers(who.size());
    std::size_t open = who.size();
    const auto all = [&]() -> Task<bool> {
      Gate asking(*agents.reactor);
      for (std::size_t i = 0; i < who.size(); ++i)
        asking.spawn(ask(agents.at(who[i]), key, answers[i], open));
      passed = {};
      while (open != 0) {
        passed += kStep;
        moveClock(kStep);
        co_await agents.reactor->sleep(Clock::duration::zero());
      }
      co_await asking.close();
      co_return true;
    };
    agents.reactor->runUntilComplete(all());
    return answers;
  }
  Answer ask(const std::string& name) { return askAll({name}).front(); }
  // Lets time pass; messages already sent have arrived afterwards.
  void pass(Clock::duration time) {
    moveClock(time);
    const auto turns = [&]() -> Task<bool> {
      for (int i = 0; i < 50; ++i) co_await agents.reactor->sleep(Clock::duration::zero());
      co_return true;
    };
    agents.reactor->runUntilComplete(turns());
  }
  LocateAnswer locate(const std::string& who, std::uint32_t chunk, Intent intent) {
    const DirectoryRequest request{
        .key = key, .size = kCopySize, .chunks = bitOf(chunk), .intent = intent};
    return agents.reactor->runUntilComplete(agents.at("home").service.locate(who, request));
  }
  void give(const std::vector<std::string>& who) {
    for (const std::string& name : who) agents.at(name).copy.chunks = kWholeCopy;
  }

  const std::vector<std::string> names{"a", "b", "c", "home"};
  CopyAgents agents{names};
  ContentKey key = agents.keyAt("home");
  std::chrono::milliseconds passed{};
};

// It is asked what it has when the directory of the key is made.
TEST_F(LateAnswersTest, AnAgentThatHangsIsNotWaitedForWhenOthersKeepTheCopy) {
  give({"a", "b"});
  agents.at("c").hangs = true;
  EXPECT_EQ(ask("a"), Answer::kGranted);
  EXPECT_LT(passed, CopyReleases::kAnswersIn);
  // Nor at all when all have been asked.
  pass(std::chrono::seconds(2));
  EXPECT_EQ(ask("b"), Answer::kGranted);
  EXPECT_LT(passed, CopyReleases::kBuildFor);
}

TEST_F(LateAnswersTest, AHolderThatHangsIsNotWaitedForWhenOthersKeepTheCopy) {
  give({"a", "b", "c"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  agents.at("c").hangs = true;
  EXPECT_EQ(ask("a"), Answer::kGranted);
  EXPECT_LT(passed, CopyReleases::kBuildFor);
}

TEST_F(LateAnswersTest, WhoeverHangsThereIsAnAnswerInTime) {
  give({"a", "b", "c"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  for (const std::string& name : {"a", "b"}) agents.at(name).copy.stored = false;
  agents.at("c").hangs = true;
  for (const bool known : {true, false}) {
    if (!known) agents.restart("home");
    // The second one has its turn behind the first one.
    EXPECT_THAT(askAll({"a", "b"}), testing::Each(Answer::kUnconfirmed)) << known;
    EXPECT_LE(passed, CopyReleases::kAnswersIn + 20 * kStep) << known;
  }
}

TEST_F(LateAnswersTest, ADirectoryThatIsLateIsAskedAgainAtOnce) {
  give({"a", "b"});
  agents.at("home").hangs = true;
  EXPECT_EQ(ask("a"), Answer::kUnconfirmed);
  EXPECT_GE(passed, CopyReleases::kAnswersIn);
  agents.at("home").hangs = false;
  EXPECT_EQ(ask("a"), Answer::kGranted);
  EXPECT_EQ(agents.at("a").counters.unanswered, 0u);
}

TEST_F(LateAnswersTest, OneThatGivesNoSignOfLifeIsNot) {
  give({"a", "b"});
  agents.at("home").hangs = true;
  agents.at("home").living = false;
  EXPECT_EQ(ask("a"), Answer::kUnanswered);
  const std::size_t calls = agents.calls;
  EXPECT_EQ(ask("a"), Answer::kUnanswered);
  EXPECT_EQ(agents.calls, calls);
  EXPECT_EQ(agents.at("a").counters.unanswered, 1u);
}

// Shards hear of other agents one after the other, and agents of one another.
TEST_F(LateAnswersTest, WhoDoesNotKnowTheOthersYetTakesNoCopyForTheLastOne) {
  give({"a", "b"});
  agents.setView("a", {"a"});
  EXPECT_EQ(ask("a"), Answer::kUnconfirmed);
  agents.setView("a", names);
  agents.setView("home", {"home"});
  EXPECT_EQ(ask("a"), Answer::kUnconfirmed);
}

TEST_F(LateAnswersTest, LeaveThatIsNotUsedTakesNoCopyFromTheDirectory) {
  give({"a", "b"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  agents.at("b").copy.chunks.clear();
  agents.at("b").leave.evicted(key, kCopySize, 0);
  pass(kStep);
  EXPECT_EQ(locate("c", 0, Intent::kInspect).holderOf(0), "a");
}

// It came again while the one before it went.
TEST_F(LateAnswersTest, ThatACopyHasGoneTakesNothingFromTheNextOne) {
  give({"a", "b"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  CopyAgents::Agent& again = agents.at("a");
  again.copy.chunks.clear();
  again.copy.wanted = true;
  agents.at("b").copy.chunks.clear();
  agents.at("b").leave.evicted(key, kCopySize, 0);
  pass(kStep);
  ASSERT_EQ(locate("a", 0, Intent::kFetch).granted, bitOf(0));
  again.leave.evicted(key, kCopySize, again.copy.request);
  pass(kStep);
  const LocateAnswer other = locate("c", 0, Intent::kFetch);
  EXPECT_EQ(other.granted, 0u) << "the origin would be read twice";
  EXPECT_EQ(other.fetcherOf(0), "a");
  EXPECT_TRUE(locate("c", 1, Intent::kInspect).holderOf(1).empty()) << "what is not here any more";
}

TEST_F(LateAnswersTest, TheEndOfARequestIsNotThatOfTheNextOne) {
  give({"a", "b"});
  CopyAgents::Agent& asker = agents.at("a");
  ASSERT_EQ(ask("a"), Answer::kGranted);
  const std::uint64_t first = asker.copy.request;
  asker.copy.beginRelease(key, "home", first + 1);
  asker.leave.kept(key, first);
  EXPECT_EQ(ask("b"), Answer::kRefused) << "a has asked again";
}

}  // namespace
}  // namespace hearth
