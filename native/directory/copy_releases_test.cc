#include "directory/copy_releases.h"

#include <gmock/gmock.h>

#include "base/testing/moved_clock.h"
#include "directory/testing/copy_agents.h"

namespace hearth {
namespace {

using directory_testing::CopyAgents;
using directory_testing::kCopySize;
using directory_testing::kWholeCopy;
using testing::ElementsAre;

using Answer = ReleaseClient::Answer;

struct CopyReleasesTest : testing::Test {
  static constexpr std::int64_t kUsedAtMs = 77;

  // Asks, and has not evicted yet.
  static Task<Answer> ask(CopyAgents::Agent& agent, ContentKey key) {
    Task<ReleaseClient::Asked> asking = agent.leave.ask(key, kCopySize, kUsedAtMs);
    co_return (co_await asking).answer;
  }
  Answer ask(const std::string& name) {
    return agents.reactor->runUntilComplete(ask(agents.at(name), key));
  }
  void gone(const std::string& name) {
    CopyAgents::Agent& agent = agents.at(name);
    agent.copy.chunks.clear();
    agent.leave.evicted(key, kCopySize, agent.copy.request);
  }
  // It stays after all; and it is said that it is here, as of a file that has just come.
  void stays(const std::string& name) {
    CopyAgents::Agent& agent = agents.at(name);
    agent.leave.kept(key, agent.copy.request);
    for (std::uint32_t stripe = 0; stripe < agent.copy.chunks.size(); ++stripe)
      agent.client.have(key, kCopySize, stripe, agent.copy.chunks[stripe]);
  }
  // Asks, and evicts when it may.
  static Task<void> evict(CopyAgents::Agent& agent, ContentKey key, Answer& answer) {
    Task<ReleaseClient::Asked> asking = agent.leave.ask(key, kCopySize, kUsedAtMs);
    const ReleaseClient::Asked asked = co_await asking;
    answer = asked.answer;
    if (answer == Answer::kGranted) {
      agent.copy.chunks.clear();
      agent.leave.evicted(key, kCopySize, asked.number);
    } else {
      agent.leave.kept(key, asked.number);
    }
  }
  static Task<bool> evictAll(CopyAgents& agents, std::vector<std::string> names, ContentKey key,
                             std::vector<Answer>& answers) {
    Gate all(*agents.reactor);
    answers.resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      all.spawn(evict(agents.at(names[i]), key, answers[i]));
    co_await all.close();
    co_return true;
  }
  // All of these at the same time.
  std::vector<Answer> evict(const std::vector<std::string>& who) {
    std::vector<Answer> answers;
    agents.reactor->runUntilComplete(evictAll(agents, who, key, answers));
    return answers;
  }
  Answer evict(const std::string& name) { return evict(std::vector{name}).front(); }
  // How many of these were given leave.
  std::size_t evictsOf(const std::vector<std::string>& who) {
    const std::vector<Answer> answers = evict(who);
    return static_cast<std::size_t>(std::count(answers.begin(), answers.end(), Answer::kGranted));
  }
  void give(const std::vector<std::string>& who, const HeldChunks& chunks = kWholeCopy) {
    for (const std::string& name : who) agents.at(name).copy.chunks = chunks;
  }
  std::vector<std::string> holders() {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      if (complete(agents.at(name).copy.chunks, kCopySize)) found.push_back(name);
    }
    return found;
  }

  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f", "g", "h", "home", "other"};
  CopyAgents agents{names};
  ContentKey key = agents.keyAt("home");
};

TEST_F(CopyReleasesTest, OneAfterTheOtherGoesAndTheLastOneStays) {
  give({"a", "b", "c"});
  EXPECT_EQ(evict("b"), Answer::kGranted);
  EXPECT_EQ(evict("a"), Answer::kGranted);
  EXPECT_EQ(evict("c"), Answer::kRefused);
  EXPECT_EQ(evict("c"), Answer::kRefused);
  EXPECT_THAT(holders(), ElementsAre("c"));
}

TEST_F(CopyReleasesTest, OfThoseThatAskAtTheSameTimeOneStays) {
  const std::vector<std::string> all{"a", "b", "c", "d", "e", "f", "g", "h"};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    agents.random.seed(seed);
    give(all);
    for (const std::string& name : all) stays(name);
    const std::vector<Answer> answers = evict(all);
    EXPECT_EQ(std::count(answers.begin(), answers.end(), Answer::kGranted), 7) << seed;
    EXPECT_EQ(std::count(answers.begin(), answers.end(), Answer::kRefused), 1) << seed;
    EXPECT_EQ(holders().size(), 1u) << seed;
  }
}

TEST_F(CopyReleasesTest, TheDirectoryItselfAsksLikeAllOthers) {
  give({"home", "a"});
  EXPECT_EQ(evict("home"), Answer::kGranted);
  EXPECT_EQ(evict("a"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, AWholeCopyStaysAndPartsGo) {
  give({"a"});
  give({"b"}, {0xffff});
  give({"c"}, {0, 0xf});
  EXPECT_EQ(evict("a"), Answer::kRefused);
  EXPECT_EQ(evict("b"), Answer::kGranted);
  EXPECT_EQ(evict("c"), Answer::kGranted);
}

TEST_F(CopyReleasesTest, WithoutAWholeCopyThePartsThatOthersHaveGo) {
  give({"a"}, {0xff});
  give({"b"}, {0xfff});
  EXPECT_EQ(evict("b"), Answer::kRefused);
  EXPECT_EQ(evict("a"), Answer::kGranted);
  EXPECT_EQ(evict("b"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, WhoIsNotStoredSilentOrOfAnEarlierReleaseKeepsNothingForOthers) {
  give({"a", "b"});
  agents.at("b").copy.stored = false;
  EXPECT_EQ(evict("a"), Answer::kUnconfirmed);
  agents.at("b").copy.stored = true;
  agents.at("b").silent = true;
  EXPECT_EQ(evict("a"), Answer::kUnconfirmed);
  agents.at("b").silent = false;
  agents.at("b").copy.old = true;
  EXPECT_EQ(evict("a"), Answer::kRefused);
  agents.at("b").copy.old = false;
  EXPECT_EQ(evict("a"), Answer::kGranted);
}

TEST_F(CopyReleasesTest, WhatTheDirectoryBelievesOfAHolderIsAskedAgain) {
  give({"a", "b"});
  ASSERT_EQ(evict("a"), Answer::kGranted);
  give({"a"});
  stays("a");
  agents.at("a").copy.chunks.clear();  // gone without a word
  EXPECT_EQ(evict("b"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, AnAgentThatHasLeftKeepsNothingForOthers) {
  give({"a", "b"});
  std::vector<std::string> left = names;
  std::erase(left, "b");
  agents.setView("home", left);
  EXPECT_EQ(evict("a"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, ADirectoryThatBeginsAgainAsksWhoHoldsWhat) {
  give({"a", "b", "c"});
  ASSERT_EQ(evict("a"), Answer::kGranted);
  agents.restart("home");
  agents.at("c").silent = true;
  EXPECT_EQ(evict("b"), Answer::kRefused) << "what c holds is not known";
  agents.at("c").silent = false;
  agents.restart("home");
  EXPECT_EQ(evict("b"), Answer::kGranted);
  EXPECT_EQ(evict("c"), Answer::kRefused);
}

// It was opened meanwhile.
TEST_F(CopyReleasesTest, WhoStaysAfterAllIsCountedAgain) {
  give({"a", "b"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  EXPECT_EQ(evict("b"), Answer::kRefused);
  agents.at("a").leave.kept(key, agents.at("a").copy.request);
  EXPECT_EQ(evict("b"), Answer::kGranted);
}

TEST_F(CopyReleasesTest, ADirectoryThatIsAwayIsNotWaitedForAgainForAWhile) {
  give({"a", "b"});
  agents.at("home").silent = true;
  EXPECT_EQ(evict("a"), Answer::kUnanswered);
  const std::size_t calls = agents.calls;
  agents.at("home").silent = false;
  EXPECT_EQ(agents.at("a").counters.unanswered, 1u);
  EXPECT_EQ(evict("a"), Answer::kUnanswered);
  moveClock(ReleaseClient::kSilentFor);
  EXPECT_EQ(evict("a"), Answer::kGranted);
  EXPECT_GT(agents.calls, calls);
}

TEST_F(CopyReleasesTest, ADirectoryOfAnEarlierReleaseKnowsNoLeave) {
  give({"a", "b"});
  agents.at("home").copy.old = true;
  EXPECT_EQ(evict("a"), Answer::kUnsupported);
}

TEST_F(CopyReleasesTest, TheAgentForWhoseSakeLeaveIsGivenHearsThatTheFileIsWanted) {
  give({"a", "b"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  EXPECT_EQ(agents.at("b").copy.usedAtMs, kUsedAtMs);
}

TEST_F(CopyReleasesTest, AnAgentThatDiesWithLeaveHasItsCopyAndIsCountedAgain) {
  give({"a", "b"});
  for (const bool forgotten : {false, true}) {
    ASSERT_EQ(ask("a"), Answer::kGranted);
    agents.restart("a");
    if (forgotten) agents.at("home").service.gone("a");
    EXPECT_EQ(ask("b"), forgotten ? Answer::kRefused : Answer::kGranted);
    stays("b");
    agents.restart("home");
    EXPECT_EQ(ask("b"), Answer::kGranted);
    stays("b");
  }
  EXPECT_EQ(evict("b"), Answer::kGranted);
  EXPECT_EQ(evict("a"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, BetweenLeaveAndEvictionAnotherDirectoryCountsTheCopyAsGone) {
  give({"a", "b"});
  std::vector<std::string> left = names;
  std::erase(left, "home");
  for (const bool restarts : {true, false}) {
    ASSERT_EQ(ask("a"), Answer::kGranted);
    if (restarts) agents.restart("home");
    if (!restarts) {
      for (const std::string& name : left) agents.setView(name, left);
    }
    EXPECT_EQ(evict("b"), Answer::kRefused) << restarts;
    stays("a");
  }
  ASSERT_EQ(ask("a"), Answer::kGranted) << "of the directory that it is now";
  gone("a");
  EXPECT_EQ(evict("b"), Answer::kRefused);
}

TEST_F(CopyReleasesTest, OnBothSidesOfACutNetworkTheCopiesStay) {
  give({"a", "b"});
  agents.setView("a", {"a", "home"});
  agents.setView("home", {"a", "home"});
  agents.setView("b", {"b", "other"});
  agents.setView("other", {"b", "other"});
  EXPECT_THAT(evict(std::vector<std::string>{"a", "b"}),
              ElementsAre(Answer::kRefused, Answer::kRefused));
  EXPECT_THAT(holders(), ElementsAre("a", "b"));
}

// The network held back a question that its agent gave up; it asked again and was given leave.
TEST_F(CopyReleasesTest, AQuestionThatComesLateKeepsNothingForOthers) {
  give({"a", "b"});
  ASSERT_EQ(ask("a"), Answer::kGranted);
  const std::uint64_t answered = agents.at("a").copy.request;
  CopyAgents::Agent& home = agents.at("home");
  agents.at("b").copy.beginRelease(key, "home", 1);
  const auto asked = [](CopyReleases& releases, std::string node, DirectoryRequest request,
                        ReleaseAnswer& answer) -> Task<void> {
    answer = co_await releases.release(std::move(node), request);
  };
  ReleaseAnswer late{};
  ReleaseAnswer other{};
  const auto both = [&]() -> Task<bool> {
    Gate all(*agents.reactor);
    const LeaveRequest first{.number = 1};
    const LeaveRequest stale{.number = answered - 1};
    all.spawn(asked(home.releases, "b", {.key = key, .size = kCopySize, .leave = first}, other));
    all.spawn(asked(home.releases, "a", {.key = key, .size = kCopySize, .leave = stale}, late));
    co_await all.close();
    co_return true;
  };
  agents.reactor->runUntilComplete(both());
  EXPECT_EQ(other, ReleaseAnswer::kRefused) << "a is about to go";
  EXPECT_EQ(late, ReleaseAnswer::kRefused);
}

TEST_F(CopyReleasesTest, OfTwoThatAskAtTheSameTimeOneStaysWhateverTheNetworkDoes) {
  std::size_t granted = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    agents.random.seed(seed);
    agents.lost = static_cast<unsigned>(agents.random() % 30);
    agents.latency = static_cast<unsigned>(agents.random() % 10);
    give({"a", "b"});
    for (const std::string& name : {"a", "b"}) stays(name);
    if (agents.random() % 4 == 0) agents.restart("home");
    granted += evictsOf({"a", "b"});
    ASSERT_GE(holders().size(), 1u) << "seed " << seed;
    moveClock(ReleaseClient::kSilentFor);
  }
  EXPECT_GT(granted, 0u);
}

// Two agents take themselves for the directory, as others are not seen by all; messages are lost on
// either way, and answers come late. Whatever happens, a copy stays.
TEST_F(CopyReleasesTest, WithTwoDirectoriesAndLostMessagesACopyStays) {
  std::vector<std::string> seen = names;
  std::erase(seen, "home");
  const std::vector<std::string> all{"a", "b", "c", "d", "e", "f", "g", "h"};
  std::size_t granted = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    agents.random.seed(seed);
    agents.lost = static_cast<unsigned>(agents.random() % 10);
    agents.latency = static_cast<unsigned>(agents.random() % 10);
    give(all);
    for (const std::string& name : all) {
      agents.setView(name, agents.random() % 2 == 0 ? names : seen);
      stays(name);
    }
    for (int round = 0; round < 3; ++round) {
      granted += evictsOf(all);
      ASSERT_GE(holders().size(), 1u) << "seed " << seed;
    }
    moveClock(ReleaseClient::kSilentFor);
  }
  EXPECT_GT(granted, 0u);
}

}  // namespace
}  // namespace hearth
