// Counts how often bytes are copied in user space on their way: we cannot save the kernel's copies,
// but ours cost a fifth of a core for each GiB/s.
#include <pthread.h>

#include <cstring>
#include <thread>

#include "engine/loopback_server.h"
#include "engine/testing/counted_copies.h"
#include "engine/testing_reader.h"

namespace hearth::testing_cluster {
namespace {

using testing_support::copiedBytes;

constexpr std::uint64_t kBytes = 10 * kChunkBytes;
// Frames of control, lists and checksums.
constexpr std::uint64_t kOther = kBytes / 50;

void inMemory(EngineOptions& options) {
  options.shards = 1;
  options.bufferBytes = 4 * kBytes;
  options.scrub.bytesPerSecond = 0;
}

void warm(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  agent.beginWarm(dataset);
  ASSERT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
}

// One agent has the file, another one asks for it.
struct CopiesOfAgents : testing::Test {
  void SetUp() override {
    origin.add("model", kBytes);
    connect({&holder, &asker});
    warm(holder, holder.add(origin));
    dataset = asker.add(origin);
  }
  Origin origin;
  Agent holder{"holder", inMemory}, asker{"asker", inMemory};
  std::shared_ptr<Dataset> dataset;
};

TEST(Copies, AreCounted) {
  const std::uint64_t before = copiedBytes();
  std::thread copying([] {
    pthread_setname_np(pthread_self(), "hearth-copying");
    const std::vector<char> from = pattern(kChunkBytes, 1);
    std::vector<char> to(kChunkBytes);
    std::memcpy(to.data(), from.data(), to.size());
    EXPECT_EQ(to, from);
  });
  copying.join();
  EXPECT_EQ(copiedBytes() - before, kChunkBytes);
}

// Counts the copies of both agents until all is stored on the asker's disk and checked there, and
// then of its readers.
TEST_F(CopiesOfAgents, NoneFromAnotherAgentToMemoryDiskAndReaders) {
  const std::uint64_t before = copiedBytes();
  warm(asker, dataset);
  const std::uint64_t received = asker.await(asker.engine().statistics()).peerBytesReceived;
  DatasetSource source(*asker.engine().commons().mounting, dataset, "test", false);
  expectFile(source, origin, 0, 1u << 20);
  const std::uint64_t copied = copiedBytes() - before;
  if (undisturbed({&holder, &asker})) {
    EXPECT_EQ(received, kBytes);
    EXPECT_LT(copied, kOther);
  }
}

TEST_F(CopiesOfAgents, NoneFromAnotherAgentToAReadersMemory) {
  const auto memory = std::make_shared<std::vector<std::byte>>(kBytes);
  const auto region = MemoryRegion::host(*memory, memory);
  // On a busy machine the asker does not wait for a late holder, and bytes that come another way
  // are copied.
  std::uint64_t copied = kBytes;
  for (int tries = 0; copied >= kOther && tries < 10; ++tries) {
    const std::uint64_t before = copiedBytes();
    std::vector<MemorySlice> slices;
    slices.push_back({region, 0, kBytes});
    const Status read = asker.await(asker.engine().contents().read(
        dataset, filesOf(*dataset->manifest).front(), 0, MemoryVector(std::move(slices))));
    ASSERT_TRUE(read.ok()) << read.error().message;
    copied = copiedBytes() - before;
  }
  EXPECT_LT(copied, kOther);
}

// libcurl receives into a buffer of its own.
TEST(Copies, OneFromAWebServerToMemoryAndDisk) {
  const std::string file(kBytes, 'x');
  const RangeServer server(kBytes, [&file](int fd, std::uint64_t first, std::uint64_t last) {
    RangeServer::send(fd, std::string_view(file).substr(first, last - first + 1));
  });
  Agent agent("agent", inMemory);
  const auto dataset = *agent.await(agent.engine().manifests().add(server.manifest()));
  dataset->locations.setBase(server.location());
  const std::uint64_t before = copiedBytes();
  warm(agent, dataset);
  const std::uint64_t copied = copiedBytes() - before;
  EXPECT_GE(copied, kBytes - kOther);
  EXPECT_LT(copied, kBytes + kOther);
}

}  // namespace
}  // namespace hearth::testing_cluster
