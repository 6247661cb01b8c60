#include "engine/engine.h"

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

std::string errorOf(const WarmProgress& progress) {
  return progress.error ? progress.error->message : "";
}

// Every byte that the engine gives equals the origin's.
void expectAllBytes(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const Result<Verified> verified =
        agent.await(agent.engine().contents().verify(dataset, entry, true));
    ASSERT_TRUE(verified.ok()) << verified.error().message;
  }
}

TEST(Engine, WarmsADirectoryAndReadsItBack) {
  Origin origin;
  origin.add("a/large.bin", 70'000'000);  // more than a stripe
  origin.add("a/small.bin", 16'384);
  origin.add("empty", 0);
  origin.add("odd", 4'194'305);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset, Verification::kDigest);
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << errorOf(progress);
  EXPECT_EQ(progress.bytesReady, origin.bytes());
  EXPECT_EQ(progress.originBytes, origin.bytes());
  EXPECT_EQ(progress.filesReady, 4u);
  EXPECT_EQ(progress.filesVerified, 4u);
  expectAllBytes(agent, dataset);
  const Residency residency = agent.await(agent.engine().contents().residency(dataset));
  EXPECT_EQ(residency.bytesResident, origin.bytes());
  EXPECT_EQ(residency.filesComplete, 4u);
}

TEST(Engine, RemembersWhatItHeldAfterARestart) {
  Origin origin;
  origin.add("model", 20'000'000);
  Agent agent("one");
  agent.beginWarm(agent.add(origin));
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  agent.stop();
  agent.start();
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  const WarmProgress again = agent.awaitWarm();
  EXPECT_EQ(again.state, WarmState::kSucceeded);
  EXPECT_EQ(again.originBytes, 0u);
  EXPECT_EQ(again.bytesReady, origin.bytes());
}

TEST(Engine, ThreeAgentsThatStartAtOnceReadTheOriginOnce) {
  Origin origin;
  for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 70'000'000);
  for (int i = 0; i < 50; ++i) origin.add("small" + std::to_string(i), 10'000);
  Agent a("a"), b("b"), c("c");
  const std::vector<Agent*> agents{&a, &b, &c};
  connect(agents);
  std::vector<std::shared_ptr<Dataset>> datasets;
  for (Agent* const agent : agents) datasets.push_back(agent->add(origin));
  for (std::size_t i = 0; i < 3; ++i) agents[i]->beginWarm(datasets[i]);
  std::uint64_t fromOrigin = 0, fromPeers = 0;
  for (Agent* const agent : agents) {
    const WarmProgress progress = agent->awaitWarm();
    EXPECT_EQ(progress.state, WarmState::kSucceeded) << agent->name() << ": " << errorOf(progress);
    EXPECT_EQ(progress.bytesReady, origin.bytes());
    const EngineStatistics statistics = agent->await(agent->engine().statistics());
    EXPECT_EQ(statistics.directoryBypassed, 0u);
    fromOrigin += progress.originBytes;
    fromPeers += progress.peerBytes;
  }
  // A chunk whose source is slow is asked for at another one, too.
  EXPECT_GE(fromOrigin + fromPeers, 3 * origin.bytes());
  EXPECT_LT(fromOrigin + fromPeers, 3 * origin.bytes() + 8 * kChunkBytes);
  if (undisturbed(agents)) {
    EXPECT_EQ(fromOrigin, origin.bytes());
  } else {
    EXPECT_LT(fromOrigin, 2 * origin.bytes());
  }
  for (std::size_t i = 0; i < 3; ++i) expectAllBytes(*agents[i], datasets[i]);
}

TEST(Engine, AnAgentReadsFromAHolderWhenTheOriginIsGone) {
  Agent a("a"), b("b");
  connect({&a, &b});
  auto origin = std::make_unique<Origin>();
  origin->add("model", 30'000'000);
  const auto held = a.add(*origin);
  const auto wanted = b.add(*origin);
  a.beginWarm(held);
  ASSERT_EQ(a.awaitWarm().state, WarmState::kSucceeded);
  origin.reset();
  b.beginWarm(wanted);
  const WarmProgress progress = b.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << errorOf(progress);
  EXPECT_EQ(progress.peerBytes, 30'000'000u);
  // Bytes of files alone, without the protocol; more where something was asked for again.
  const std::uint64_t received = b.await(b.engine().statistics()).peerBytesReceived;
  const std::uint64_t sent = a.await(a.engine().statistics()).peerBytesSent;
  EXPECT_GE(received, 30'000'000u);
  EXPECT_GE(sent, 30'000'000u);
  if (undisturbed({&a, &b})) {
    EXPECT_EQ(received, 30'000'000u);
    EXPECT_EQ(sent, 30'000'000u);
  }
}

TEST(Engine, BytesComeFromTheSameZone) {
  Agent near("near"), far("far"), reader("reader");
  std::vector<ClusterMember> members{near.member(), far.member(), reader.member()};
  members[0].zone = members[2].zone = "here";
  members[1].zone = "elsewhere";
  for (Agent* const agent : {&near, &far, &reader}) agent->setCluster(members);
  const auto sent = [](Agent& agent) {
    return agent.await(agent.engine().statistics()).peerBytesSent;
  };
  const auto warm = [](Agent& agent, const Origin& origin) {
    agent.beginWarm(agent.add(origin));
    ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());  // forgets it
  };
  std::uint64_t fromNear = 0, fromFar = 1;
  for (int tries = 0; fromFar != 0 && tries < kTries; ++tries) {
    Origin origin;
    origin.add("model", 60'000'000);
    warm(near, origin);
    warm(far, origin);
    const std::uint64_t nearBefore = sent(near), farBefore = sent(far);
    warm(reader, origin);
    fromNear = sent(near) - nearBefore;
    fromFar = sent(far) - farBefore;
  }
  EXPECT_GE(fromNear, 60'000'000u);
  EXPECT_EQ(fromFar, 0u);
}

TEST(Engine, SurvivesAPeerThatStopsUnderReads) {
  Origin origin;
  for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 80'000'000);
  Agent a("a"), b("b"), c("c");
  connect({&a, &b, &c});
  const auto datasetA = a.add(origin);
  const auto datasetB = b.add(origin);
  c.beginWarm(c.add(origin));
  a.beginWarm(datasetA);
  b.beginWarm(datasetB);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  c.stop();
  for (Agent* const agent : {&a, &b}) agent->setCluster({a.member(), b.member()});
  const WarmProgress progressA = a.awaitWarm();
  const WarmProgress progressB = b.awaitWarm();
  EXPECT_EQ(progressA.state, WarmState::kSucceeded) << errorOf(progressA);
  EXPECT_EQ(progressB.state, WarmState::kSucceeded) << errorOf(progressB);
  expectAllBytes(a, datasetA);
  expectAllBytes(b, datasetB);
}

TEST(Engine, FailsTheJobWhenTheOriginChangedAndNeverMixes) {
  Origin origin;
  origin.add("model", 10'000'000);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  std::ofstream(origin.folder() + "/model", std::ios::binary | std::ios::app) << "x";
  agent.beginWarm(dataset);
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kOriginChanged);
  EXPECT_EQ(progress.bytesReady, 0u);
}

TEST(Engine, StaysInItsBudgetByEvictingTheLeastRecentlyUsed) {
  Origin first, second;
  first.add("first", 40'000'000);
  second.add("second", 40'000'000);
  Agent agent("one", 64u << 20);
  const auto old = agent.add(first);
  agent.beginWarm(old);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  agent.beginWarm(agent.add(second));
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << errorOf(progress);
  EXPECT_EQ(agent.await(agent.engine().contents().residency(old)).bytesResident, 0u);

  // A file that made room is fetched again like any other.
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  agent.beginWarm(old);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

TEST(Engine, SaysWhatIsMissingWhenTheBudgetIsTooSmall) {
  Origin origin;
  origin.add("model", 40'000'000);
  Agent agent("one", 16u << 20);
  agent.beginWarm(agent.add(origin));
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kOutOfSpace);
}

TEST(Engine, CancelsAJobAndForgetsIt) {
  Origin origin;
  origin.add("model", 200'000'000);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  WarmOptions options;
  options.job = "warm";
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  options.rateLimit = 10'000'000;
  ASSERT_TRUE(agent.engine().warm(options).ok());
  EXPECT_EQ(agent.engine().warm(options).code(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kCancelled);
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(agent.engine().findJob("warm"), nullptr);
}

TEST(Engine, FetchesManifestsFromPeers) {
  Origin origin;
  origin.add("model", 1000);
  Agent a("a"), b("b");
  connect({&a, &b});
  const auto dataset = a.add(origin);
  const auto opened = b.await(b.engine().manifests().open(dataset->manifest->digest()));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->manifest->totals().files, 1u);
  Sha256Digest unknown{};
  EXPECT_EQ(b.await(b.engine().manifests().open(unknown)).code(), ErrorCode::kNotFound);
}

TEST(Engine, ClosesWithEverythingUnderWay) {
  Origin origin;
  for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 100'000'000);
  Agent a("a"), b("b");
  connect({&a, &b});
  a.beginWarm(a.add(origin));
  b.beginWarm(b.add(origin));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  a.stop();
  b.stop();
}

}  // namespace
}  // namespace hearth::testing_cluster
