// The directory of a key is away, but still in the view of the cluster: agents ask its stand-in.
#include <gtest/gtest.h>

#include "directory/directory_service.h"
#include "engine/testing_partition.h"

namespace hearth::testing_cluster {
namespace {

// The answer of the directory at `agent` to `asker` about the first stripe.
Task<LocateAnswer> lookAt(Engine& engine, std::string asker, FileReference file) {
  Shard& shard = engine.commons().owner(file.about.key);
  co_await shard.reactor->enter();
  const DirectoryRequest request{
      .key = file.about.key, .size = file.about.size, .chunks = 0xffff, .intent = Intent::kLookUp};
  const LocateAnswer answer = co_await shard.directoryService->locate(std::move(asker), request);
  co_await engine.home().enter();
  co_return answer;
}

ChunkMask chunksOf(const LocateAnswer& answer, const std::string& node) {
  for (const StripeHolder& holder : answer.holders) {
    if (holder.node == node) return holder.chunks;
  }
  return 0;
}

TEST(StandInDirectory, ReceivesReportsThatTheFirstCannot) {
  Agent first("first"), second("second"), reader("reader"), later("later");
  const std::vector<Agent*> agents{&first, &second, &reader, &later};
  connectExcept(agents, {&second, &reader, &later}, first);
  const std::unique_ptr<Origin> origin = originDirectedBy(agents, {&first, &second});
  const auto dataset = reader.add(*origin);
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  // The stand-in has asked everybody before anybody had a byte of it.
  ASSERT_TRUE(second.await(lookAt(second.engine(), "later", file)).holders.empty());
  reader.beginWarm(dataset);
  const WarmProgress progress = reader.awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kSucceeded);

  // Otherwise an agent that asks later would read the origin again.
  EXPECT_TRUE(eventually([&] {
    return chunksOf(second.await(lookAt(second.engine(), "later", file)), "reader") == 0xff;
  }));
}

}  // namespace
}  // namespace hearth::testing_cluster
