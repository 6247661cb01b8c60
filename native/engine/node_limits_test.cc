// A node keeps to its limits, readers first, and nothing stands still for them. Time passes because
// the test says so.
#include "fetch/node_limits.h"

#include <gtest/gtest.h>

#include <future>

#include "base/testing/moved_clock.h"
#include "engine/testing_cluster.h"
#include "engine/testing_reader.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMebibyte = 1u << 20;
// A chunk of 4 MiB takes 64 s: the time that a test takes earns nothing.
constexpr std::uint64_t kSlow = 64u << 10;

struct LimitedAgent {
  explicit LimitedAgent(NodeLimitOptions limits, std::uint64_t memory = 256 * kMebibyte,
                        const std::string& name = "one")
      : agent(name, [&](EngineOptions& options) {
          options.limits = limits;
          options.bufferBytes = memory;
        }) {}

  [[nodiscard]] NodeLimits& limits() { return *agent.engine().commons().limits; }
  [[nodiscard]] EngineStatistics statistics() { return agent.await(agent.engine().statistics()); }
  [[nodiscard]] std::uint64_t originBytes() { return statistics().origin.bytes; }
  // Waits until so much has come from the origin. Time must not move before: a transfer under way
  // would have stood still.
  [[nodiscard]] bool came(std::uint64_t bytes) {
    return eventually([&] { return originBytes() == bytes; });
  }
  [[nodiscard]] bool waiting(BandwidthLimiter& limiter, Priority priority, std::uint64_t number) {
    return eventually([&] { return limiter.use(priority).waiting == number; });
  }
  // Reads a file as an application does, on a thread of its own.
  [[nodiscard]] std::future<void> read(const std::shared_ptr<Dataset>& dataset,
                                       const Origin& origin, std::size_t file) {
    return std::async(std::launch::async, [this, dataset, &origin, file] {
      DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
      expectFile(source, origin, file, 1 * kMebibyte);
    });
  }

  Agent agent;
};

bool ready(const std::future<void>& future) {
  return future.wait_for(0s) == std::future_status::ready;
}

void add(Origin& origin, int files, std::uint64_t bytes) {
  for (int i = 0; i < files; ++i) origin.add("file" + std::to_string(i), bytes);
}

TEST(NodeLimits, ShardsShareOneBudgetToWhichWarmJobsKeep) {
  Origin origin;
  add(origin, 16, 4 * kMebibyte);
  LimitedAgent one({.origin = {.warm = kSlow}});
  const auto dataset = one.agent.add(origin);
  one.agent.beginWarm(dataset);
  // Chunks of two shards: the first passes, and the others wait until it is earned.
  for (std::uint64_t passed = 1; passed <= 16; ++passed) {
    ASSERT_TRUE(one.waiting(one.limits().origin, Priority::kBackground, 16 - passed));
    ASSERT_TRUE(one.came(passed * 4 * kMebibyte));
    moveClock(64s);
  }
  EXPECT_GE(one.limits().origin.use(Priority::kBackground).waited, 64s);
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
}

TEST(NodeLimits, AReaderPassesAWarmJobWithinTheTotal) {
  Origin warmed, wanted;
  add(warmed, 8, 4 * kMebibyte);
  wanted.add("wanted", 4 * kMebibyte);
  LimitedAgent one({.origin = {.total = kSlow}});
  const auto ofJob = one.agent.add(warmed), ofReader = one.agent.add(wanted);
  one.agent.beginWarm(ofJob);
  ASSERT_TRUE(one.waiting(one.limits().origin, Priority::kBackground, 7));
  const std::future<void> reading = one.read(ofReader, wanted, 0);
  ASSERT_TRUE(one.waiting(one.limits().origin, Priority::kDemand, 1));
  EXPECT_FALSE(ready(reading));
  ASSERT_TRUE(one.came(4 * kMebibyte));
  moveClock(64s);  // the job's bytes are earned
  EXPECT_TRUE(eventually([&] { return ready(reading); }));
  EXPECT_EQ(one.originBytes(), 8 * kMebibyte);
  EXPECT_EQ(one.limits().origin.use(Priority::kDemand).bytes, 4 * kMebibyte);
  // At its end an engine waits for no limit.
  one.agent.stop();
}

TEST(NodeLimits, AJobThatIsCancelledWaitsNoMore) {
  Origin origin;
  add(origin, 4, 4 * kMebibyte);
  LimitedAgent one({.origin = {.total = kSlow}});
  one.agent.beginWarm(one.agent.add(origin));
  ASSERT_TRUE(one.waiting(one.limits().origin, Priority::kBackground, 3));
  EXPECT_TRUE(one.agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kCancelled);
  EXPECT_EQ(one.limits().origin.use(Priority::kBackground).waiting, 0u);
}

// The file is fetched from the origin alone, as other agents may have it wrong, too.
TEST(NodeLimits, AJobThatIsCancelledWaitsNoMoreForTheOriginAlone) {
  Origin origin;
  add(origin, 4, 4 * kMebibyte);
  LimitedAgent one({.origin = {.total = 1}});
  const auto dataset = one.agent.add(origin);
  for (const std::uint32_t file : filesOf(*dataset->manifest)) {
    auto rounds = std::make_shared<SourceRounds>();
    std::ignore = rounds->wrong("it is not what the digest says", Clock::now());
    one.agent.engine().commons().refusals.note(dataset->manifest->entry(file).key,
                                               std::move(rounds));
  }
  one.agent.beginWarm(dataset);
  ASSERT_TRUE(one.waiting(one.limits().origin, Priority::kBackground, 3));
  EXPECT_TRUE(one.agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kCancelled);
  EXPECT_EQ(one.limits().origin.use(Priority::kBackground).waiting, 0u);
}

// The job reads files for the comparison as slowly as the disk's limit lets it.
TEST(NodeLimits, AJobThatIsCancelledVerifiesNoMore) {
  Origin origin;
  origin.add("model", 24 * kMebibyte);
  LimitedAgent one({.disk = {.warm = kSlow}});
  const auto dataset = one.agent.add(origin);
  one.agent.beginWarm(dataset, Verification::kNone);
  ASSERT_TRUE(one.came(24 * kMebibyte));
  ASSERT_TRUE(eventually([&] {
    moveClock(16s);
    return one.agent.engine().findJob("warm")->progress().state == WarmState::kSucceeded;
  }));
  moveClock(600s);
  EXPECT_TRUE(one.agent.engine().cancelWarm("warm").ok());  // forgets it
  one.agent.beginWarm(dataset);
  ASSERT_TRUE(one.waiting(one.limits().disk, Priority::kBackground, 2));
  EXPECT_TRUE(one.agent.engine().cancelWarm("warm").ok());
  EXPECT_EQ(one.agent.awaitWarm().state, WarmState::kCancelled);
}

// The disk may take next to nothing: readers get bytes all the same.
TEST(NodeLimits, ReadersGoOnWhenALimitedDiskFillsMemory) {
  Origin origin;
  origin.add("model", 200 * kMebibyte);
  LimitedAgent one({.disk = {.total = 1}}, 64 * kMebibyte);
  const auto dataset = one.agent.add(origin);
  const std::future<void> reading = one.read(dataset, origin, 0);
  EXPECT_TRUE(eventually([&] {
    moveClock(5ms);
    return ready(reading);
  }));
  EXPECT_NE(one.statistics().throughBytes, 0u);
}

// While readers need the memory, they wait for writes.
TEST(NodeLimits, WritingIsWarmWorkUntilReadersNeedItsMemory) {
  Origin origin;
  origin.add("model", 200 * kMebibyte);
  LimitedAgent one({.disk = {.warm = 1}}, 64 * kMebibyte);
  const auto dataset = one.agent.add(origin);
  const std::future<void> reading = one.read(dataset, origin, 0);
  EXPECT_TRUE(eventually([&] { return ready(reading); }));
  const auto residency = one.agent.await(one.agent.engine().contents().residency(dataset));
  EXPECT_GT(residency.bytesResident, 64 * kMebibyte);
}

TEST(NodeLimits, AnswersToPeersWaitAndControlMessagesPass) {
  constexpr std::uint64_t kRate = 4 * kMebibyte;
  Origin origin, other;
  add(origin, 3, 4 * kMebibyte);
  add(other, 8, 64u << 10);
  LimitedAgent one({.peers = {.total = kRate}}), two({}, 256 * kMebibyte, "two");
  connect({&one.agent, &two.agent});
  one.agent.beginWarm(one.agent.add(origin));
  ASSERT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  const auto dataset = two.agent.add(origin), ofOrigin = two.agent.add(other);
  const Clock::time_point began = Clock::now();
  std::vector<std::future<void>> reading;
  for (std::size_t file = 0; file < 3; ++file) reading.push_back(two.read(dataset, origin, file));
  // For some keys the directory is the agent that sends nothing now.
  for (std::size_t file = 0; file < 8; ++file) two.read(ofOrigin, other, file).wait();
  EXPECT_TRUE(eventually([&] {
    moveClock(5ms);
    return std::all_of(reading.begin(), reading.end(), ready);
  }));
  EXPECT_GE(Clock::now() - began, 1500ms);  // the first one passes at once
  EXPECT_GE(one.limits().toPeers.use(Priority::kDemand).bytes, 12 * kMebibyte);
  if (undisturbed({&one.agent, &two.agent})) {
    EXPECT_EQ(two.originBytes(), other.bytes());
  }
}

TEST(NodeLimits, ReadsFromPeersKeepToTheirLimit) {
  Origin origin;
  add(origin, 3, 4 * kMebibyte);
  LimitedAgent one({}), two({.peers = {.warm = kSlow}}, 256 * kMebibyte, "two");
  connect({&one.agent, &two.agent});
  one.agent.beginWarm(one.agent.add(origin));
  ASSERT_EQ(one.agent.awaitWarm().state, WarmState::kSucceeded);
  const auto dataset = two.agent.add(origin);
  two.agent.beginWarm(dataset);
  ASSERT_TRUE(two.waiting(two.limits().fromPeers, Priority::kBackground, 2));
  EXPECT_TRUE(eventually(
      [&] { return two.limits().fromPeers.use(Priority::kBackground).bytes == 4 * kMebibyte; }));
  // A reader does not wait for the part of warm work.
  two.read(dataset, origin, 0).wait();
  two.read(dataset, origin, 1).wait();
  two.read(dataset, origin, 2).wait();
  EXPECT_EQ(two.agent.awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(two.limits().fromPeers.use(Priority::kBackground).bytes, 4 * kMebibyte);
  if (undisturbed({&one.agent, &two.agent})) {
    EXPECT_EQ(two.statistics().peerBytesReceived, 12 * kMebibyte);
  }
}

}  // namespace
}  // namespace hearth::testing_cluster
