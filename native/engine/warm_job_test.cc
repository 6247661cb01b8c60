// Limits and counts of warm jobs.
#include "warm/warm_job.h"

#include "engine/testing_cluster.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::connect;
using testing_cluster::Origin;

WarmOptions optionsFor(const std::shared_ptr<Dataset>& dataset) {
  WarmOptions options;
  options.job = "warm";
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  return options;
}

// Some bytes have come from the origin: later ones wait for the rate.
bool begins(Agent& agent, const std::string& job) {
  return eventually([&] { return agent.engine().findJob(job)->progress().originBytes > 0; });
}

double secondsOf(Agent& agent, WarmOptions options) {
  const auto began = Clock::now();
  EXPECT_TRUE(agent.engine().warm(std::move(options)).ok());
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  return std::chrono::duration<double>(Clock::now() - began).count();
}

TEST(WarmJob, LimitsBytesFromPeersByThemselves) {
  Origin origin;
  origin.add("model", 60'000'000);
  Agent a("a"), b("b");
  connect({&a, &b});
  secondsOf(a, optionsFor(a.add(origin)));
  WarmOptions options = optionsFor(b.add(origin));
  options.peerRateLimit = 30'000'000;
  // 60 MB at 30 MB/s, less a burst of a quarter of a second and the last requests.
  const double seconds = secondsOf(b, std::move(options));
  EXPECT_GT(seconds, 1.3);
  const WarmProgress progress = b.awaitWarm();
  EXPECT_EQ(progress.originBytes + progress.peerBytes, origin.bytes());
  if (testing_cluster::undisturbed({&a, &b})) {
    EXPECT_EQ(progress.originBytes, 0u);
  }
}

TEST(WarmJob, ASlowJobHoldsNoOtherBack) {
  Origin slow, quick;
  for (int i = 0; i < 8; ++i) slow.add("slow" + std::to_string(i), 64'000'000);
  quick.add("quick", 100'000'000);
  Agent agent("one");
  WarmOptions limited = optionsFor(agent.add(slow));
  limited.job = "limited";
  limited.rateLimit = 1'000'000;
  ASSERT_TRUE(agent.engine().warm(std::move(limited)).ok());
  ASSERT_TRUE(begins(agent, "limited"));
  secondsOf(agent, optionsFor(agent.add(quick)));
  EXPECT_EQ(agent.engine().findJob("limited")->progress().state, WarmState::kRunning);
  ASSERT_TRUE(agent.engine().cancelWarm("limited").ok());
}

TEST(WarmJob, ACancelledJobFetchesNothingMore) {
  Origin origin;
  for (int i = 0; i < 4; ++i) origin.add("file" + std::to_string(i), 64'000'000);
  Agent agent("one");
  const auto dataset = agent.add(origin);
  WarmOptions limited = optionsFor(dataset);
  limited.rateLimit = 1'000'000;
  ASSERT_TRUE(agent.engine().warm(std::move(limited)).ok());
  ASSERT_TRUE(begins(agent, "warm"));
  // A reader that waits for a chunk of the job gets it all the same.
  WarmOptions reader = optionsFor(dataset);
  reader.job = "reader";
  reader.entries.resize(1);
  ASSERT_TRUE(agent.engine().warm(std::move(reader)).ok());
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kCancelled);
  EXPECT_LT(progress.originBytes, 40'000'000u);
  EXPECT_TRUE(eventually(
      [&] { return agent.engine().findJob("reader")->progress().state >= WarmState::kSucceeded; }));
  EXPECT_EQ(agent.engine().findJob("reader")->progress().state, WarmState::kSucceeded);
}

TEST(WarmJob, VerifiesAFileWhileOthersAreFetched) {
  Origin origin;
  for (int i = 0; i < 8; ++i) origin.add("file" + std::to_string(i), 8'000'000);
  Agent agent("one");
  WarmOptions options = optionsFor(agent.add(origin));
  options.rateLimit = 8'000'000;
  ASSERT_TRUE(agent.engine().warm(std::move(options)).ok());
  WarmProgress progress;
  eventually([&] {
    progress = agent.engine().findJob("warm")->progress();
    return progress.filesVerified != 0;
  });
  EXPECT_GE(progress.filesVerified, 1u);
  EXPECT_GE(progress.bytesVerified, 8'000'000u);
  EXPECT_LT(progress.filesReady, 8u);
  EXPECT_EQ(progress.state, WarmState::kRunning);
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kCancelled);
}

TEST(WarmJob, CountsTheBytesThatItVerifies) {
  for (const Verification verify : {Verification::kChecksum, Verification::kDigest}) {
    Origin origin;
    origin.add("a", 9'000'000);
    origin.add("b", 1'000);
    Agent agent("one");
    WarmOptions options = optionsFor(agent.add(origin));
    options.verify = verify;
    secondsOf(agent, std::move(options));
    EXPECT_EQ(agent.awaitWarm().bytesVerified, origin.bytes());
  }
  Origin origin;
  origin.add("a", 9'000'000);
  Agent agent("one");
  WarmOptions options = optionsFor(agent.add(origin));
  options.verify = Verification::kNone;
  secondsOf(agent, std::move(options));
  EXPECT_EQ(agent.awaitWarm().bytesVerified, 0u);
}

}  // namespace
}  // namespace hearth
