// Reads of chunks from a disk that is bad.
#include "fetch/arrived_read.h"

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

struct BadDisk {
  int reads = 0;
  Task<Status> read(std::shared_ptr<LoadedChunk> loaded) {
    EXPECT_EQ(loaded, nullptr);
    co_return Error{ErrorCode::kCorrupt, "bad " + std::to_string(++reads)};
  }
  static Task<Status> run(Shard& shard, FileReference file, Reactor& home) {
    co_await shard.reactor->enter();
    const Result<std::shared_ptr<FileFetch>> opened = co_await shard.fetcher->open(std::move(file));
    if (!opened.ok()) co_return opened.error();
    BadDisk disk;
    const auto read = [&disk](std::shared_ptr<LoadedChunk> loaded) {
      return disk.read(std::move(loaded));
    };
    Status status = co_await readArrived(*shard.fetcher, *opened, 0, read);
    co_await home.enter();
    co_return status;
  }
};

TEST(ArrivedRead, EndsWithTheLastErrorOfTheDisk) {
  Origin origin;
  origin.add("model", kChunkBytes);
  Agent agent("agent", [](EngineOptions& options) { options.shards = 1; });
  agent.beginWarm(agent.add(origin));
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
  agent.stop();
  agent.start();
  const auto dataset = agent.add(origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  const Status status =
      agent.await(BadDisk::run(*agent.engine().commons().shards.front(),
                               FileReference::of(dataset, entry), agent.engine().home()));
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_EQ(status.error().message, "bad 3") << "after as many repairs";
}

}  // namespace
}  // namespace hearth::testing_cluster
