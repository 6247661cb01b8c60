// Two agents that hold a file on their disks, of which one hangs, and a third that reads the file.
// For tests.
#pragma once

#include "engine/testing_hanging_disk.h"

namespace hearth::testing_cluster {

class HangingPeerTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kChunks = 24;

  void SetUp() override {
    origin.add("model", kChunks * kChunkBytes);
    connect({&idle, &reader, &hanging});
    // Takes its chunks from the idle one: the directory names the agent first that gave fewer.
    for (Agent* const agent : {&idle, &hanging}) {
      agent->beginWarm(agent->add(origin));
      ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
      forgetMemory(*agent);
    }
    faults->hang({DiskOperation::kRead, DiskOperation::kOpenToRead});
    dataset = reader.add(origin);
  }
  void TearDown() override { faults->resume(); }

  void readFrom(std::uint64_t chunk) {
    const auto bytes = reader.await(reader.engine().contents().read(
        dataset, filesOf(*dataset->manifest)[0], chunk * kChunkBytes, 1000));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  }
  [[nodiscard]] std::uint64_t originBytes() {
    return reader.engine().commons().counters.fetched.originBytes.load();
  }

  Origin origin;
  const std::shared_ptr<testing_support::DiskFaults> faults =
      std::make_shared<testing_support::DiskFaults>("/");
  Agent idle{"idle"}, reader{"reader"},
      hanging{"hanging", [this](EngineOptions&options) {
                // Like a release that does not notice it.
                options.cacheDirectories.front().stall = Clock::duration::max();
                options.files = [faults = faults](Reactor& reactor) {
                  return std::make_unique<testing_support::FaultyFileSystem>(reactor, faults);
                };
              }};
  std::shared_ptr<Dataset> dataset;
};

}  // namespace hearth::testing_cluster
