// ContentCalls::verify on files whose bytes have changed on the disk.
#include <fcntl.h>
#include <unistd.h>

#include "engine/testing_cluster.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;

constexpr std::uint64_t kSmallMemory = 4 * std::uint64_t{kChunkBytes};
constexpr std::uint64_t kFileBytes = 9'000'000;  // three chunks

void inSmallMemory(EngineOptions& options) {
  options.scrub.bytesPerSecond = 0;
  options.shards = 1;
  options.bufferBytes = kSmallMemory;
}

void warm(Agent& agent, const std::shared_ptr<Dataset>& dataset, const std::string& job) {
  WarmOptions options;
  options.job = job;
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  ASSERT_TRUE(agent.engine().warm(std::move(options)).ok());
  const auto begun = agent.engine().findJob(job);
  ASSERT_TRUE(eventually([&] { return begun->progress().state == WarmState::kSucceeded; }));
}

// Pushes what was fetched before out of the agent's memory.
void fillMemory(Agent& agent) {
  Origin other;
  other.add("other", 2 * kSmallMemory);
  ASSERT_NO_FATAL_FAILURE(warm(agent, agent.add(other), "other"));
}

std::shared_ptr<CachedFile> cacheFileOf(Agent& agent, const Dataset& dataset) {
  const ContentKey key = dataset.manifest->entry(filesOf(*dataset.manifest)[0]).key;
  return agent.engine().commons().cache->find(key);
}

void flipOnDisk(const std::string& path, std::uint64_t at) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0) << path;
  char byte = 0;
  ASSERT_EQ(pread(file, &byte, 1, static_cast<off_t>(at)), 1);
  byte = static_cast<char>(~byte);
  ASSERT_EQ(pwrite(file, &byte, 1, static_cast<off_t>(at)), 1);
  ASSERT_EQ(fsync(file), 0);
  close(file);
}

std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<Verified> verify(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  const std::uint32_t entry = filesOf(*dataset->manifest)[0];
  return agent.await(agent.engine().contents().verify(dataset, entry, false));
}

void withoutScrub(EngineOptions& options) { options.scrub.bytesPerSecond = 0; }

// An agent that has one file.
class VerifyTest : public testing::Test {
 protected:
  void start(std::function<void(EngineOptions&)> adjust) {
    origin->add("model", kFileBytes);
    agent = std::make_unique<Agent>("one", std::move(adjust));
    dataset = agent->add(*origin);
    ASSERT_NO_FATAL_FAILURE(warm(*agent, dataset, "warm"));
    path = cacheFileOf(*agent, *dataset)->path();
    good = contents(path);
  }
  // Two blocks of the first chunk and one of the last.
  void damage() const {
    for (const std::uint64_t at :
         {std::uint64_t{5}, std::uint64_t{5} * kBlockBytes, kFileBytes - 1})
      ASSERT_NO_FATAL_FAILURE(flipOnDisk(path, at));
  }
  Result<Verified> expectRepaired() {
    Result<Verified> verified = verify(*agent, dataset);
    EXPECT_TRUE(verified.ok()) << verified.error().message;
    if (verified.ok()) {
      EXPECT_EQ(verified->repairedBlocks, 3u);
      EXPECT_EQ(verified->repaired, "blocks 0, 5, 137");
    }
    EXPECT_TRUE(contents(path) == good);
    return verified;
  }

  std::unique_ptr<Origin> origin = std::make_unique<Origin>();
  std::unique_ptr<Agent> agent;
  std::shared_ptr<Dataset> dataset;
  std::string path;
  std::vector<char> good;
};

TEST_F(VerifyTest, RepairsEveryBadBlockFromMemory) {
  ASSERT_NO_FATAL_FAILURE(start(withoutScrub));
  origin.reset();
  ASSERT_NO_FATAL_FAILURE(damage());
  const Result<Verified> verified = expectRepaired();
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->originBytes, 0u);
  EXPECT_EQ(verify(*agent, dataset)->repairedBlocks, 0u);
}

TEST_F(VerifyTest, RepairsFromTheOrigin) {
  ASSERT_NO_FATAL_FAILURE(start(inSmallMemory));
  ASSERT_NO_FATAL_FAILURE(fillMemory(*agent));
  ASSERT_NO_FATAL_FAILURE(damage());
  const Result<Verified> verified = expectRepaired();
  ASSERT_TRUE(verified.ok());
  EXPECT_GT(verified->originBytes, 0u);
}

TEST_F(VerifyTest, NamesAFileWithAChunkThatCannotBeHad) {
  ASSERT_NO_FATAL_FAILURE(start(inSmallMemory));
  ASSERT_TRUE(agent->await(agent->engine().contents().buildView(dataset)).ok());
  ASSERT_NO_FATAL_FAILURE(fillMemory(*agent));
  const std::string away = origin->folder() + ".away";
  std::filesystem::rename(origin->folder(), away);
  ASSERT_NO_FATAL_FAILURE(damage());
  const Result<Verified> verified = verify(*agent, dataset);
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message.find("model: blocks 0, 5, 137 changed on the disk"),
            std::string::npos)
      << verified.error().message;
  EXPECT_FALSE(cacheFileOf(*agent, *dataset)->complete());
  EXPECT_EQ(agent->engine().commons().cache->viewPath(dataset->manifest->digest()), "");
  std::filesystem::rename(away, origin->folder());
  EXPECT_TRUE(verify(*agent, dataset).ok());
  EXPECT_TRUE(cacheFileOf(*agent, *dataset)->complete());
}

}  // namespace
}  // namespace hearth
