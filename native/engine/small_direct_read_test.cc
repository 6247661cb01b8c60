// Small reads into a caller's memory, many of one chunk.
#include "engine/testing_failing_transport.h"
#include "engine/testing_partition.h"
#include "fetch/fetcher.h"

namespace hearth::testing_cluster {
namespace {

// Agents in one rack and another that keeps the directory.
class SmallDirectReads : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 4096;

  void SetUp() override {
    std::vector<ClusterMember> members{near.member(), far.member(), reader.member()};
    for (ClusterMember& member : members) {
      if (member.identity.node != "far") member.rack = "rack";
    }
    for (Agent* const agent : {&near, &far, &reader}) agent->setCluster(members);
  }
  // A new file, which `near` and `far` hold.
  void bring() {
    origin = originDirectedBy({&near, &far, &reader}, {&far}, 2 * kChunkBytes);
    for (Agent* const agent : {&near, &far}) {
      agent->beginWarm(agent->add(*origin));
      ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
      ASSERT_TRUE(agent->engine().cancelWarm("warm").ok());  // forgets it
    }
    dataset = reader.add(*origin);
    expected = origin->bytesOf("model");
  }
  void readAt(std::uint64_t offset) {
    const auto memory = std::make_shared<std::vector<std::byte>>(kBytes);
    const MemoryVector into(MemorySlice::of(*memory, memory));
    const std::uint32_t entry = filesOf(*dataset->manifest).front();
    const Status read = reader.await(reader.engine().contents().read(dataset, entry, offset, into));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_TRUE(
        std::ranges::equal(*memory, std::as_bytes(std::span(expected)).subspan(offset, kBytes)))
        << offset;
  }
  [[nodiscard]] static std::uint64_t served(Agent& agent) {
    return agent.engine().commons().counters.servedBytes;
  }

  FailingTransport::Reads reads;  // none fails
  Agent near{"near"}, far{"far"}, reader{"reader", failingBy(reads)};
  std::unique_ptr<Origin> origin;
  std::shared_ptr<Dataset> dataset;
  std::string expected;
};

TEST_F(SmallDirectReads, AskTheDirectoryOnceForManyOfOneChunk) {
  std::size_t lookUps = 0, allowed = 0;
  std::uint64_t fromFar = 1;
  for (int tries = 0; (lookUps > allowed || fromFar != 0) && tries < kTries; ++tries) {
    ASSERT_NO_FATAL_FAILURE(bring());
    const std::uint64_t before = served(far);
    reads.lookUps = 0;
    const Clock::time_point begun = Clock::now();
    for (std::uint64_t at = 0; at < 64; ++at) readAt(at * 5 * kBytes);
    allowed = 1 + static_cast<std::size_t>((Clock::now() - begun) / KnownHolders::kKnown);
    lookUps = reads.lookUps;
    fromFar = served(far) - before;
  }
  EXPECT_LE(lookUps, allowed);
  EXPECT_EQ(fromFar, 0u) << "the nearest gives";
}

TEST_F(SmallDirectReads, GoElsewhereWhenTheHolderHasLostTheChunk) {
  const auto requests = [this] {
    return reader.await(reader.engine().statistics()).origin.requests;
  };
  bool first = false, elsewhere = false;
  for (int tries = 0; !(first && elsewhere) && tries < kTries; ++tries) {
    ASSERT_NO_FATAL_FAILURE(bring());
    std::uint64_t ofNear = served(near);
    const std::uint64_t ofFar = served(far), ofOrigin = requests();
    readAt(kChunkBytes);
    first = served(near) != ofNear && served(far) == ofFar;
    ofNear = served(near);
    near.await(near.engine().contents().evict(near.add(*origin), std::nullopt));
    readAt(kChunkBytes + kBytes);
    elsewhere = served(near) == ofNear && served(far) != ofFar && requests() == ofOrigin;
  }
  EXPECT_TRUE(first) << "the nearest gives";
  EXPECT_TRUE(elsewhere) << "the other holder gives, and not the origin";
}

}  // namespace
}  // namespace hearth::testing_cluster
