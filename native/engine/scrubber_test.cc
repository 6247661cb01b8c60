// Bytes that change on the disk are found by the background scrub and mended.
#include "warm/scrubber.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/testing_cluster.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;

// Changes bytes [at, at + 16) of the file on the disk.
void flipOnDisk(const std::string& path, std::uint64_t at) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0) << path;
  char bytes[16];
  ASSERT_EQ(pread(file, bytes, sizeof bytes, static_cast<off_t>(at)), 16);
  for (char& byte : bytes) byte = static_cast<char>(~byte);
  ASSERT_EQ(pwrite(file, bytes, sizeof bytes, static_cast<off_t>(at)), 16);
  ASSERT_EQ(fsync(file), 0);
  close(file);
}

// The path of the agent's copy of the origin's only file.
std::string cacheFileOf(Agent& agent, const Origin& origin) {
  const auto dataset = agent.add(origin);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest)[0]).key;
  return agent.engine().commons().cache->find(key)->path();
}

std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// As Agent::add, for a named dataset: the scrub waits for files that may get a dataset in a moment.
std::shared_ptr<Dataset> addNamed(Agent& agent, const Origin& origin) {
  const auto added = agent.add(origin);
  auto named = agent.engine().manifests().find(added->manifest->digest(), "model");
  Location base;
  base.path = base.below = origin.folder();
  named->locations.setBase(std::move(base));
  return named;
}

// Builds the view of a complete dataset.
std::string warmView(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  agent.beginWarm(dataset);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  const auto view = agent.await(agent.engine().contents().buildView(dataset));
  EXPECT_TRUE(view.ok()) << (view.ok() ? "" : view.error().message);
  return view.ok() ? *view : "";
}

ScrubStatistics awaitScrub(Agent& agent, const std::function<bool(const ScrubStatistics&)>& done) {
  ScrubStatistics now;
  eventually([&] {
    now = agent.await(agent.engine().statistics()).scrub;
    return done(now);
  });
  return now;
}

const ScrubOptions kOften{.bytesPerSecond = std::uint64_t{1} << 30,
                          .interval = std::chrono::milliseconds(100)};

constexpr std::uint64_t kLittleMemory = 4 * std::uint64_t{kChunkBytes};

void scrubOftenInLittleMemory(EngineOptions& options) {
  options.scrub = kOften;
  options.shards = 1;
  options.bufferBytes = kLittleMemory;
}

// An agent with little memory has stored files on the disk alone.
void fillMemory(Agent& agent) {
  Origin other;
  other.add("other", 2 * kLittleMemory);
  const auto dataset = agent.add(other);
  WarmOptions options;
  options.job = "other";
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  ASSERT_TRUE(agent.engine().warm(std::move(options)).ok());
  const auto job = agent.engine().findJob("other");
  ASSERT_TRUE(eventually([&] { return job->progress().state == WarmState::kSucceeded; }));
}

// Nothing else looks at written bytes: without the scrub the view would give these for ever, and
// the wait below would end with kHang.
TEST(Scrubber, MendsBytesThatChangedBelowAView) {
  Origin origin;
  origin.add("model", 30'000'000);
  Agent agent("one", kOften);
  const auto view = warmView(agent, agent.add(origin));
  const std::vector<char> good = contents(view + "/model");
  flipOnDisk(view + "/model", 9'000'000);
  const ScrubStatistics found =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.repairedChunks != 0; });
  EXPECT_EQ(found.badBlocks, 1u);
  EXPECT_EQ(found.repairedChunks, 1u);
  EXPECT_TRUE(contents(view + "/model") == good) << "the same inode has good bytes again";
}

// The file is read again and again; without the rate, 48 MiB would take a small part of a second.
TEST(Scrubber, ReadsNoFasterThanItsRate) {
  constexpr std::uint64_t kMiB = 1u << 20;
  Origin origin;
  origin.add("model", 24 * kMiB);
  Agent agent("one",
              ScrubOptions{.bytesPerSecond = 12 * kMiB, .interval = std::chrono::milliseconds(1)});
  agent.beginWarm(agent.add(origin));
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  const auto began = Clock::now();
  const std::uint64_t before = agent.await(agent.engine().statistics()).scrub.bytes;
  const std::uint64_t enough = before + 48 * kMiB;
  while (agent.await(agent.engine().statistics()).scrub.bytes < enough)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // 4 s, less the burst.
  EXPECT_GE(Clock::now() - began, std::chrono::seconds(2));
}

// Memory has the right bytes, so neither the origin nor another agent is needed.
TEST(Scrubber, MendsFromMemory) {
  auto origin = std::make_unique<Origin>();
  origin->add("model", 9'000'000);
  Agent agent("one", kOften);
  const auto dataset = addNamed(agent, *origin);
  const auto view = warmView(agent, dataset);
  const std::vector<char> good = contents(view + "/model");
  origin.reset();
  flipOnDisk(view + "/model", 5'000'000);
  const ScrubStatistics found =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.repairedChunks != 0; });
  EXPECT_EQ(found.badBlocks, 1u);
  EXPECT_EQ(found.lostChunks, 0u);
  EXPECT_TRUE(contents(view + "/model") == good);
}

TEST(Scrubber, ServesNothingAsAWholeThatItCannotMend) {
  auto origin = std::make_unique<Origin>();
  origin->add("model", 9'000'000);
  Agent agent("one", scrubOftenInLittleMemory);
  const auto dataset = addNamed(agent, *origin);
  const auto view = warmView(agent, dataset);
  ASSERT_NO_FATAL_FAILURE(fillMemory(agent));
  origin.reset();
  flipOnDisk(view + "/model", 5'000'000);
  const ScrubStatistics found =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.lostChunks != 0; });
  EXPECT_EQ(found.badBlocks, 1u);
  EXPECT_EQ(found.lostChunks, 1u);
  EXPECT_FALSE(agent.await(agent.engine().contents().buildView(dataset)).ok());
}

TEST(Scrubber, MendsLaterWhatItCannotMendNow) {
  Origin origin;
  origin.add("model", 9'000'000);
  Agent agent("one", scrubOftenInLittleMemory);
  const auto dataset = addNamed(agent, origin);
  const auto view = warmView(agent, dataset);
  const std::vector<char> good = contents(view + "/model");
  const std::string away = origin.folder() + ".away";
  ASSERT_NO_FATAL_FAILURE(fillMemory(agent));
  std::filesystem::rename(origin.folder(), away);
  flipOnDisk(view + "/model", 5'000'000);
  const ScrubStatistics found =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.lostChunks != 0; });
  EXPECT_EQ(found.lostChunks, 1u);
  std::filesystem::rename(away, origin.folder());
  const ScrubStatistics later =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.repairedChunks != 0; });
  EXPECT_EQ(later.repairedChunks, 1u) << "no reader has asked for it";
  EXPECT_EQ(later.lostChunks, 1u) << "it is counted once";
  EXPECT_TRUE(contents(view + "/model") == good);
}

// After a start the scrub looks at everything at once, while the agent above still reports its
// datasets.
TEST(Scrubber, WaitsForTheDatasetsOfAnAgentThatStarts) {
  Origin origin;
  origin.add("model", 9'000'000);
  Agent agent("one", kOften);
  agent.beginWarm(agent.add(origin));
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  const std::string path = cacheFileOf(agent, origin);
  agent.stop();
  flipOnDisk(path, 5'000'000);
  agent.start();
  const ScrubStatistics found =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.badBlocks != 0; });
  EXPECT_EQ(found.badBlocks, 1u);
  agent.add(origin);
  const ScrubStatistics later =
      awaitScrub(agent, [](const ScrubStatistics& now) { return now.repairedChunks != 0; });
  EXPECT_EQ(later.repairedChunks, 1u);
  EXPECT_EQ(later.lostChunks, 0u);
}

TEST(Scrubber, DoesNothingWhereItIsOff) {
  Origin origin;
  origin.add("model", 1'000'000);
  Agent agent("one", ScrubOptions{.bytesPerSecond = 0, .interval = {}});
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(agent.await(agent.engine().statistics()).scrub.bytes, 0u);
}

}  // namespace
}  // namespace hearth
