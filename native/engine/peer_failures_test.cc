// An agent that fails at something, or cannot reach an agent, disturbs no others.
#include <gtest/gtest.h>

#include "engine/testing_partition.h"

namespace hearth::testing_cluster {
namespace {

std::string failureOf(const WarmProgress& progress) {
  return progress.error ? progress.error->message : "";
}

WarmProgress warm(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  agent.beginWarm(dataset);
  return agent.awaitWarm();
}

TEST(PeerFailures, AFullDiskIsNotTheHoldersFault) {
  Agent holder("holder"), full("full", 8u << 20), healthy("healthy");
  connect({&holder, &full, &healthy});
  auto origin = std::make_unique<Origin>();
  origin->add("model", 30'000'000);
  const auto held = holder.add(*origin);
  const auto unwritable = full.add(*origin);
  const auto wanted = healthy.add(*origin);
  ASSERT_EQ(warm(holder, held).state, WarmState::kSucceeded);
  origin.reset();

  const WarmProgress failed = warm(full, unwritable);
  EXPECT_EQ(failed.state, WarmState::kFailed);
  ASSERT_TRUE(failed.error.has_value());
  EXPECT_EQ(failed.error->code, ErrorCode::kOutOfSpace) << failureOf(failed);

  const WarmProgress progress = warm(healthy, wanted);
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << failureOf(progress);
  EXPECT_EQ(progress.peerBytes, 30'000'000u);
}

TEST(PeerFailures, AHolderThatOneAgentCannotReachServesTheOthers) {
  Agent holder("holder"), cut("cut"), near("near");
  connectExcept({&holder, &cut, &near}, {&cut}, holder);
  std::unique_ptr<Origin> origin = originDirectedBy({&holder, &cut, &near}, {&near});
  const auto held = holder.add(*origin);
  const auto unreachable = cut.add(*origin);
  const auto wanted = near.add(*origin);
  ASSERT_EQ(warm(holder, held).state, WarmState::kSucceeded);
  origin.reset();

  // No other agent has it, and the origin has gone.
  EXPECT_EQ(warm(cut, unreachable).state, WarmState::kFailed);
  const WarmProgress progress = warm(near, wanted);
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << failureOf(progress);
  EXPECT_EQ(progress.peerBytes, 30'000'000u);

  // The agent now reads from the holder that it can reach.
  ASSERT_TRUE(cut.engine().cancelWarm("warm").ok());
  const WarmProgress later = warm(cut, unreachable);
  EXPECT_EQ(later.state, WarmState::kSucceeded) << failureOf(later);
  EXPECT_EQ(later.peerBytes, 30'000'000u);
}

// The holder itself says what it holds, however many agents say that they cannot read from it.
TEST(PeerFailures, AHolderThatSeveralAgentsCannotReachServesTheOthers) {
  Agent holder("holder"), cut("cut"), apart("apart"), near("near");
  const std::vector<Agent*> agents{&holder, &cut, &apart, &near};
  connectExcept(agents, {&cut, &apart}, holder);
  std::unique_ptr<Origin> origin = originDirectedBy(agents, {&near});
  const auto held = holder.add(*origin);
  const auto ofCut = cut.add(*origin), ofApart = apart.add(*origin);
  const auto wanted = near.add(*origin);
  ASSERT_EQ(warm(holder, held).state, WarmState::kSucceeded);
  origin.reset();

  EXPECT_EQ(warm(cut, ofCut).state, WarmState::kFailed);
  EXPECT_EQ(warm(apart, ofApart).state, WarmState::kFailed);
  const WarmProgress progress = warm(near, wanted);
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << failureOf(progress);
  EXPECT_EQ(progress.peerBytes, 30'000'000u);
}

TEST(PeerFailures, AnAgentThatReachesNoHolderGoesToTheOrigin) {
  Agent holder("holder"), cut("cut"), near("near");
  connectExcept({&holder, &cut, &near}, {&cut}, holder);
  Origin origin;
  origin.add("model", 30'000'000);
  const auto wanted = near.add(origin);
  ASSERT_EQ(warm(holder, holder.add(origin)).state, WarmState::kSucceeded);
  const WarmProgress progress = warm(cut, cut.add(origin));
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << failureOf(progress);
  EXPECT_EQ(progress.originBytes, 30'000'000u);
  const WarmProgress last = warm(near, wanted);
  EXPECT_EQ(last.state, WarmState::kSucceeded) << failureOf(last);
  EXPECT_EQ(last.originBytes, 0u);
}

// The agent that cannot reach the holder gets its chunks from the third agent or by itself.
TEST(PeerFailures, AllGetEverythingThroughAOneSidedPartition) {
  Agent a("a"), b("b"), c("c");
  connectExcept({&a, &b, &c}, {&a}, b);
  Origin origin;
  for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 30'000'000);
  const std::vector<Agent*> agents{&a, &b, &c};
  std::vector<std::shared_ptr<Dataset>> datasets;
  for (Agent* const agent : agents) datasets.push_back(agent->add(origin));
  for (std::size_t i = 0; i < 3; ++i) agents[i]->beginWarm(datasets[i]);
  std::uint64_t fromOrigin = 0;
  for (Agent* const agent : agents) {
    const WarmProgress progress = agent->awaitWarm();
    EXPECT_EQ(progress.state, WarmState::kSucceeded) << agent->name() << failureOf(progress);
    fromOrigin += progress.originBytes;
  }
  // Where the directory of a key is the agent that cannot be reached, its stand-in grants again.
  EXPECT_LE(fromOrigin, 2 * origin.bytes());
}

}  // namespace
}  // namespace hearth::testing_cluster
