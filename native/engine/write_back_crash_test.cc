// Loses power at every call that write-back makes of the disk. An agent that starts on the
// remaining disk claims only chunks whose bytes are right, and completes the dataset.
#include <gtest/gtest.h>

#include "base/testing/sanitizers.h"
#include "engine/shard.h"
#include "engine/testing_reader.h"
#include "files/crash_file_system.h"

namespace hearth::testing_cluster {
namespace {

// Sanitizers slow each of the engines down, so the power is lost at fewer calls there.
constexpr std::uint64_t kStride = kSanitized ? 11 : 2;

// An agent of one shard, on a disk that outlives neither the agent nor its power.
struct AgentOnDisk {
  explicit AgentOnDisk(std::unique_ptr<CrashFileSystem> files)
      : disk(files.get()), agent("agent", [&files](EngineOptions& options) {
          options.shards = 1;
          options.bufferBytes = 64u << 20;
          options.cacheDirectories = {{"/cache", 1u << 30, 0}};
          options.files = [&files](Reactor&) { return std::move(files); };
        }) {}

  CrashFileSystem* const disk;
  Agent agent;
};

// Bypasses the agent's store of manifests, which maps the kernel's files.
std::shared_ptr<Dataset> datasetOf(const Origin& origin) {
  const std::vector<std::byte> bytes = origin.manifest();
  auto dataset = std::make_shared<Dataset>(*Manifest::parse(bytes), "", [](EngineEvent) {});
  Location base;
  base.path = origin.folder();
  base.below = base.path;
  dataset->locations.setBase(std::move(base));
  return dataset;
}

void expectTrueClaims(AgentOnDisk& survivor, const Dataset& dataset, const Origin& origin) {
  ContentCache& cache = *survivor.agent.engine().commons().cache;
  for (const std::uint32_t entry : filesOf(*dataset.manifest)) {
    const std::shared_ptr<CachedFile> file = cache.find(dataset.manifest->entry(entry).key);
    if (file == nullptr) continue;
    const std::string all = origin.bytesOf(std::string(dataset.manifest->path(entry)));
    const auto opened = survivor.disk->openForReading(file->path());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const auto* const stored = reinterpret_cast<const char*>(*(*opened)->map(file->size()));
    for (std::uint32_t chunk = 0; chunk < file->chunkCount(); ++chunk) {
      if (!file->resident(chunk)) continue;
      const std::uint64_t from = std::uint64_t{chunk} * kChunkBytes;
      const std::string_view expected = std::string_view(all).substr(from, kChunkBytes);
      EXPECT_EQ(std::string_view(stored + from, expected.size()), expected) << "chunk " << chunk;
    }
  }
}

TEST(WriteBackCrash, APowerLossAtEveryCallLeavesOnlyTrueClaims) {
  Origin origin;
  origin.add("model", 2 * kChunkBytes + 12'345);
  origin.add("tokenizer", 40'000);
  auto empty = std::make_unique<CrashFileSystem>();
  {
    AgentOnDisk first(std::move(empty));
    empty = first.disk->killCopy();
  }
  std::uint64_t crashes = 0;
  for (std::uint64_t at = 0;; at += kStride) {
    SCOPED_TRACE("the power is lost after " + std::to_string(at) + " operations");
    AgentOnDisk victim(empty->killCopy());
    const auto dataset = datasetOf(origin);
    victim.disk->crashAfter(at);
    victim.agent.beginWarm(dataset, Verification::kNone);
    const bool succeeded = victim.agent.awaitWarm().state == WarmState::kSucceeded;
    EXPECT_EQ(succeeded, !victim.disk->crashed());
    AgentOnDisk survivor(victim.disk->crashCopy(at));
    const auto again = datasetOf(origin);
    ASSERT_NO_FATAL_FAILURE(expectTrueClaims(survivor, *again, origin));
    survivor.agent.beginWarm(again, Verification::kNone);
    ASSERT_EQ(survivor.agent.awaitWarm().state, WarmState::kSucceeded);
    ASSERT_NO_FATAL_FAILURE(expectTrueClaims(survivor, *again, origin));
    if (succeeded) break;
    ++crashes;
  }
  EXPECT_GT(crashes, 0u);
}

}  // namespace
}  // namespace hearth::testing_cluster
