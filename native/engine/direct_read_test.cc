// Reads into a caller's memory, with no cache file in between.
#include <future>
#include <random>
#include <thread>

#include "engine/testing_failing_transport.h"
#include "engine/testing_partition.h"
#include "fetch/fetcher.h"
#include "transport/testing/memory_network.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kSize = 3 * kChunkBytes + 12'345;

struct DirectReadTest : testing::Test {
  DirectReadTest() {
    origin.add("model", kSize);
    expected = origin.bytesOf("model");
    connect({&holder, &reader});
    warmed = holder.add(origin);
    dataset = reader.add(origin);
    entry = filesOf(*dataset->manifest).front();
  }
  void warm() {
    holder.beginWarm(warmed);
    ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  }
  // Memory in pieces of this size, which are parts of one region.
  Status read(std::uint64_t offset, std::uint64_t size, std::uint64_t pieces = kSize) {
    memory = std::make_shared<std::vector<std::byte>>(size);
    const auto region = MemoryRegion::host(*memory, memory);
    std::vector<MemorySlice> slices;
    for (std::uint64_t at = 0; at < size; at += pieces)
      slices.push_back({region, at, std::min(pieces, size - at)});
    return reader.await(
        reader.engine().contents().read(dataset, entry, offset, MemoryVector(std::move(slices))));
  }
  void expectRead(std::uint64_t offset, std::uint64_t size, std::uint64_t pieces = kSize) {
    const Status status = read(offset, size, pieces);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(
        std::ranges::equal(*memory, std::as_bytes(std::span(expected)).subspan(offset, size)))
        << offset << " " << size;
  }
  [[nodiscard]] std::uint64_t kept() {
    return reader.await(reader.engine().contents().residency(dataset)).bytesResident;
  }
  [[nodiscard]] EngineStatistics statistics() { return reader.await(reader.engine().statistics()); }
  // All bytes came from the holder, which was never silent, and nothing was kept.
  void expectNothingKept() {
    if (!undisturbed({&holder, &reader})) return;
    EXPECT_EQ(statistics().origin.requests, 0u);
    EXPECT_EQ(kept(), 0u);
  }

  Origin origin;
  std::string expected;
  Agent holder{"holder"}, reader{"reader"};
  std::shared_ptr<Dataset> warmed, dataset;
  std::uint32_t entry = 0;
  std::shared_ptr<std::vector<std::byte>> memory;
};

TEST_F(DirectReadTest, ReadsStraightFromAnotherAgentAndKeepsNothing) {
  warm();
  expectRead(0, kSize);
  const EngineStatistics after = statistics();
  if (undisturbed({&holder, &reader})) {
    EXPECT_EQ(after.peerBytesReceived, kSize);
  }
  EXPECT_EQ(after.buffersInUse, 0u);
  expectNothingKept();
}

TEST_F(DirectReadTest, RangesBeginAndEndAnywhereInPiecesOfAnySize) {
  warm();
  std::mt19937_64 random(1);
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t from = random() % kSize;
    const std::uint64_t size = 1 + random() % (kSize - from);
    expectRead(from, size, 1000 + random() % 100'000);
  }
  expectRead(kSize, 0);
  expectRead(kChunkBytes - 1, 2);
  expectNothingKept();
}

TEST_F(DirectReadTest, FetchesAndKeepsWhatNoAgentHolds) {
  expectRead(1000, kChunkBytes);
  EXPECT_TRUE(eventually([&] { return kept() == 2 * kChunkBytes; }));
  const auto requests = statistics().origin.requests;
  EXPECT_GT(requests, 0u);
  expectRead(0, 2 * kChunkBytes, 4096);
  EXPECT_EQ(statistics().origin.requests, requests) << "from here";
  EXPECT_EQ(statistics().peerBytesReceived, 0u);
}

TEST_F(DirectReadTest, FetchesFromTheOriginWhatAHolderLoses) {
  warm();
  expectRead(0, 1000);
  holder.stop();
  expectRead(0, kSize);
  EXPECT_GT(statistics().origin.requests, 0u);
}

TEST_F(DirectReadTest, RefusesRangesBeyondTheEndAndMemoryOutOfReach) {
  EXPECT_EQ(read(kSize - 1, 2).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read(~0ull, 1).code(), ErrorCode::kInvalidArgument);
  const MemorySlice gpu{MemoryRegion::gpu(4096, 1000, nullptr), 0, 1000};
  const Status status =
      reader.await(reader.engine().contents().read(dataset, entry, 0, MemoryVector(gpu)));
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  const MemorySlice outside{MemoryRegion::host(std::span(*memory).first(1)), 0, 1000};
  const Status refused =
      reader.await(reader.engine().contents().read(dataset, entry, 0, MemoryVector(outside)));
  EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
}

// A holder that once gave little would give to all, however much that is.
TEST(DirectRead, AllHoldersOfAFileGiveTheirPart) {
  Origin origin;
  origin.add("model", kSize);
  Agent first("first"), second("second"), reader("reader");
  connect({&first, &second, &reader});
  for (Agent* const agent : {&first, &second}) {  // the second one from the first
    agent->beginWarm(agent->add(origin));
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
  const auto sent = [](Agent& agent) {
    return agent.await(agent.engine().statistics()).peerBytesSent;
  };
  const std::uint64_t before = sent(first);
  const auto dataset = reader.add(origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  for (int i = 0; i < 8; ++i) {
    const auto memory = std::make_shared<std::vector<std::byte>>(kSize);
    const MemoryVector into(MemorySlice::of(*memory, memory));
    ASSERT_TRUE(reader.await(reader.engine().contents().read(dataset, entry, 0, into)).ok());
  }
  EXPECT_GT(sent(first), before + kSize);
  EXPECT_GT(sent(second), kSize);
}

// The directory may know agents that the reader does not, or no longer, knows: here of some of the
// files.
TEST(DirectRead, PassesOverAHolderThatTheReaderDoesNotKnow) {
  Origin origin;
  for (int i = 0; i < 8; ++i) origin.add("model" + std::to_string(i), kBlockBytes);
  Agent holder("holder"), third("third"), reader("reader");
  connect({&holder, &third, &reader});
  holder.beginWarm(holder.add(origin));
  ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  reader.setCluster({third.member(), reader.member()});
  const auto dataset = reader.add(origin);
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const auto memory = std::make_shared<std::vector<std::byte>>(kBlockBytes);
    const MemoryVector into(MemorySlice::of(*memory, memory));
    const Status read = reader.await(reader.engine().contents().read(dataset, entry, 0, into));
    EXPECT_TRUE(read.ok()) << read.error().message;
  }
}

// The reader prefers the holder in its rack.
void bothHold(Agent& near, Agent& far, Agent& reader, const Origin& origin) {
  std::vector<ClusterMember> members{near.member(), far.member(), reader.member()};
  for (ClusterMember& member : members) {
    if (member.identity.node != "far") member.rack = "rack";
  }
  for (Agent* const agent : {&near, &far, &reader}) agent->setCluster(members);
  for (Agent* const agent : {&near, &far}) {
    agent->beginWarm(agent->add(origin));
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
}

struct Asked {
  std::size_t failed = 0, lookUps = 0;
  std::uint64_t originRequests = 0;
  bool operator==(const Asked&) const = default;
};

// Reads a file that two agents hold. One of them fails when all parts with slots ask it.
void readWhereOneFails(std::size_t slots, Asked& asked) {
  constexpr std::size_t kChunks = 12;
  FailingTransport::Reads reads{.from = "near", .together = slots};
  Agent near("near"), far("far"), reader("reader", failingBy(reads));
  const auto origin = originDirectedBy({&near, &far, &reader}, {&far}, kChunks * kChunkBytes);
  ASSERT_NO_FATAL_FAILURE(bothHold(near, far, reader, *origin));
  const auto dataset = reader.add(*origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  const auto memory = std::make_shared<std::vector<std::byte>>(origin->bytes());
  const MemoryVector into(MemorySlice::of(*memory, memory));
  const Status read = reader.await(reader.engine().contents().read(dataset, entry, 0, into));
  EXPECT_TRUE(read.ok()) << read.error().message;
  const std::string expected = origin->bytesOf("model");
  EXPECT_TRUE(std::ranges::equal(*memory, std::as_bytes(std::span(expected))));
  asked = {reads.failed, reads.lookUps, reader.await(reader.engine().statistics()).origin.requests};
}

// All parts with slots ask the agent at once. Parts that wait for slots do not, once these have
// failed, nor do later ones.
TEST(DirectRead, AsksAFailedAgentForNothingMore) {
  constexpr std::size_t kSlots = DirectReadSlots::kPeerBytes / kChunkBytes;
  constexpr std::size_t kAtOnce = 8;  // parts of one read
  const Asked wanted{kSlots, 1 + kAtOnce + 1, 0};
  Asked asked;
  for (int tries = 0; asked != wanted && tries < kTries; ++tries)
    ASSERT_NO_FATAL_FAILURE(readWhereOneFails(kSlots, asked));
  EXPECT_EQ(asked.failed, wanted.failed);
  EXPECT_EQ(asked.lookUps, wanted.lookUps)
      << "for the stripe, for the parts that were to come from there, and for the others together";
  EXPECT_EQ(asked.originRequests, 0u);
}

// Otherwise each part would wait for the same agent as long as the part before it.
TEST(DirectRead, ReadsBehindLateOnesGoElsewhere) {
  constexpr std::size_t kSlots = DirectReadSlots::kPeerBytes / kChunkBytes, kReads = 3;
  FailingTransport::Reads reads{
      .from = "near", .together = kSlots, .late = std::chrono::seconds(2)};
  Agent near("near"), far("far"), reader("reader", failingBy(reads));
  const auto origin = originDirectedBy({&near, &far, &reader}, {&far}, kSlots * kChunkBytes);
  ASSERT_NO_FATAL_FAILURE(bothHold(near, far, reader, *origin));
  const auto dataset = reader.add(*origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  const std::string expected = origin->bytesOf("model");
  std::vector<std::future<void>> all;
  for (std::size_t i = 0; i < kReads; ++i) {
    all.push_back(std::async(std::launch::async, [&] {
      const auto memory = std::make_shared<std::vector<std::byte>>(origin->bytes());
      const MemoryVector into(MemorySlice::of(*memory, memory));
      const Status read = reader.await(reader.engine().contents().read(dataset, entry, 0, into));
      EXPECT_TRUE(read.ok()) << read.error().message;
      EXPECT_TRUE(std::ranges::equal(*memory, std::as_bytes(std::span(expected))));
    }));
  }
  for (std::future<void>& each : all) each.get();
  EXPECT_EQ(reads.failed.load(), kSlots) << "those that had places";
}

// A read leaves a stalled rail for another holder. The rail writes on for a while: not over the
// bytes of the other holder.
TEST(DirectRead, LateBytesOverwriteNothingOfTheNextAgent) {
  testing_rails::MemoryNetwork network(
      {.rails = {.stalled = 50, .late = std::chrono::milliseconds(100)}}, 1);
  const auto onNetwork = [&](EngineOptions& options) { options.transport = network.factory(); };
  Origin origin;
  origin.add("model", kSize);
  const std::string expected = origin.bytesOf("model");
  Agent one("one", onNetwork), two("two", onNetwork), reader("reader", onNetwork);
  for (Agent* const agent : {&one, &two}) {
    agent->beginWarm(agent->add(origin));
    ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
  }
  connect({&one, &two, &reader});
  const auto dataset = reader.add(origin);
  const std::uint32_t entry = filesOf(*dataset->manifest).front();
  int complete = 0;
  for (int i = 0; i < 8; ++i) {
    const auto memory = std::make_shared<std::vector<std::byte>>(kSize);
    const MemoryVector into(MemorySlice::of(*memory, memory));
    const Status read = reader.await(reader.engine().contents().read(dataset, entry, 0, into));
    if (!read.ok()) continue;
    ++complete;
    std::this_thread::sleep_for(std::chrono::milliseconds(150));  // the late bytes come now
    EXPECT_TRUE(std::ranges::equal(*memory, std::as_bytes(std::span(expected))));
  }
  EXPECT_GT(complete, 0);
  for (Agent* const agent : {&one, &two, &reader}) agent->stop();
  EXPECT_GT(network.faultsMet(), 0u);
}

}  // namespace
}  // namespace hearth::testing_cluster
