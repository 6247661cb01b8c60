// An origin that changes while a file of it is read, and sends nothing that would show it: only the
// digest of the whole does. No reader gets bytes of two states to the end without an error.
#include <future>

#include "engine/digest_origin.h"
#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::size_t kSize = DigestOrigin::kSize;

// Reads of one file through a mount, opened once.
class Reader {
 public:
  Reader(Agent& agent, std::shared_ptr<Dataset> dataset)
      : source_(*agent.engine().commons().mounting, dataset, "test", true),
        file_(*source_.openFile(fileOf(*dataset))) {}

  // kOk and the bytes as they are listed in `of`, or kProtocolError for others, or why none came.
  ErrorCode read(std::uint64_t offset, const std::vector<char>& of) {
    const auto length = static_cast<std::uint32_t>(std::min(kChunkBytes, of.size() - offset));
    Result<MappedBytes> bytes = file_->tryRead(offset, length);
    if (!bytes.ok()) {
      std::promise<Result<MappedBytes>> promise;
      file_->read(offset, length,
                  [&promise](Result<MappedBytes> answer) { promise.set_value(answer); });
      bytes = promise.get_future().get();
    }
    if (!bytes.ok()) return bytes.code();
    std::vector<std::byte> all(bytes->bytes.begin(), bytes->bytes.end());
    all.insert(all.end(), bytes->rest.begin(), bytes->rest.end());
    const bool same =
        all.size() == length && std::memcmp(all.data(), of.data() + offset, length) == 0;
    return same ? ErrorCode::kOk : ErrorCode::kProtocolError;
  }
  MountSource::OpenFile& file() { return *file_; }

 private:
  DatasetSource source_;
  std::shared_ptr<MountSource::OpenFile> file_;
};

std::uint64_t mismatches(Agent& agent) {
  return agent.await(agent.engine().statistics()).digestMismatches;
}

bool isWhole(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  const ContentKey key = dataset->manifest->entry(fileOf(*dataset)).key;
  return agent.engine().commons().cache->verifiedWhole(key);
}

std::uint64_t resident(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  return agent.engine().commons().cache->residentBytes(
      dataset->manifest->entry(fileOf(*dataset)).key);
}

TEST(ChangedUnderReader, NoReaderGetsAllOfAMixture) {
  DigestOrigin origin(20);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Reader reader(agent, dataset);
  ASSERT_EQ(reader.read(0, origin.listed()), ErrorCode::kOk);
  ASSERT_TRUE(eventually([&] { return resident(agent, dataset) != 0; }));
  const std::vector<char> other = pattern(kSize, 90);
  origin.write(other);
  std::size_t failed = 0;
  for (std::uint64_t at = kChunkBytes; at < kSize; at += kChunkBytes) {
    const ErrorCode code = reader.read(at, other);
    EXPECT_TRUE(code == ErrorCode::kOk || code == ErrorCode::kOriginChanged ||
                code == ErrorCode::kCorrupt)
        << errorName(code);
    if (code != ErrorCode::kOk) ++failed;
  }
  EXPECT_GE(failed, 1u);
  // Nor does it get what it has not asked for yet, or the same again.
  for (std::uint64_t at = 0; at < kSize; at += kChunkBytes)
    EXPECT_EQ(reader.read(at, other), ErrorCode::kOriginChanged) << at;
}

// In whichever order: what is given last waits.
TEST(ChangedUnderReader, NorBackwards) {
  DigestOrigin origin(21);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Reader reader(agent, dataset);
  const std::uint64_t last = (kSize - 1) / kChunkBytes * kChunkBytes;
  ASSERT_EQ(reader.read(last, origin.listed()), ErrorCode::kOk);
  const std::vector<char> other = pattern(kSize, 91);
  origin.write(other);
  std::size_t failed = 0;
  for (std::uint64_t at = last; at != 0; at -= kChunkBytes)
    failed += reader.read(at - kChunkBytes, other) == ErrorCode::kOk ? 0 : 1;
  EXPECT_GE(failed, 1u);
}

// The second fetch is good. Who has read of the first one gets nothing of it, others do.
TEST(ChangedUnderReader, WhoReadOfTheFirstFetchGetsNothingOfTheSecond) {
  DigestOrigin origin(22);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Reader before(agent, dataset);
  std::atomic<int> announced{0};
  before.file().onDiffer([&announced] { ++announced; });
  ASSERT_EQ(before.read(0, origin.listed()), ErrorCode::kOk);
  const std::vector<char> other = pattern(kSize, 92);
  origin.write(other);
  for (std::uint64_t at = kChunkBytes; at < 5 * kChunkBytes; at += kChunkBytes)
    ASSERT_EQ(before.read(at, other), ErrorCode::kOk) << "nothing shows it yet";
  EXPECT_FALSE(before.file().settled());
  origin.restore();
  EXPECT_EQ(before.read(5 * kChunkBytes, origin.listed()), ErrorCode::kOriginChanged);
  ASSERT_TRUE(eventually([&] { return isWhole(agent, dataset); }));
  EXPECT_EQ(mismatches(agent), 1u);
  EXPECT_TRUE(eventually([&] { return announced == 1; }));

  EXPECT_EQ(before.read(2 * kChunkBytes, origin.listed()), ErrorCode::kOriginChanged);
  EXPECT_FALSE(before.file().settled()) << "the kernel may have pages of the first fetch";
  Reader after(agent, dataset);
  EXPECT_TRUE(after.file().settled());
  for (std::uint64_t at = 0; at < kSize; at += kChunkBytes)
    EXPECT_EQ(after.read(at, origin.listed()), ErrorCode::kOk) << at;
}

// What a reader of an earlier time was given counts: the kernel may have kept it.
TEST(ChangedUnderReader, WhatWasGivenBeforeItWasOpenedCounts) {
  DigestOrigin origin(23);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  ASSERT_EQ(Reader(agent, dataset).read(0, origin.listed()), ErrorCode::kOk);
  ASSERT_TRUE(eventually([&] { return resident(agent, dataset) != 0; }));
  const std::vector<char> other = pattern(kSize, 93);
  origin.write(other);
  Reader reader(agent, dataset);
  std::size_t failed = 0;
  for (std::uint64_t at = kChunkBytes; at < kSize; at += kChunkBytes)
    failed += reader.read(at, other) == ErrorCode::kOk ? 0 : 1;
  EXPECT_GE(failed, 1u);
}

TEST(ChangedUnderReader, AFileOfOneChunkIsComparedBeforeItIsRead) {
  constexpr std::uint64_t kSmall = 50'000;
  DigestOrigin origin(24, kSmall);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  const std::vector<char> other = pattern(kSmall, 94);
  origin.write(other);
  Reader reader(agent, dataset);
  EXPECT_EQ(reader.read(0, other), ErrorCode::kOriginChanged);
  EXPECT_GE(mismatches(agent), 1u);
}

TEST(ChangedUnderReader, AnUnchangedFileIsReadToItsEnd) {
  DigestOrigin origin(25);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Reader reader(agent, dataset);
  for (int time = 0; time < 2; ++time) {
    for (std::uint64_t at = 0; at < kSize; at += kChunkBytes)
      EXPECT_EQ(reader.read(at, origin.listed()), ErrorCode::kOk) << at;
  }
  EXPECT_TRUE(eventually([&] { return isWhole(agent, dataset); }));
  EXPECT_EQ(mismatches(agent), 0u);
}

// There is no room to keep all of it, so it is never compared, and no read may wait for that.
TEST(ChangedUnderReader, WhatIsReadThroughWaitsForNoComparison) {
  DigestOrigin origin(26);
  Agent agent("one", 2 * kChunkBytes);
  const auto dataset = origin.addTo(agent);
  Reader reader(agent, dataset);
  for (int time = 0; time < 2; ++time) {
    for (std::uint64_t at = 0; at < kSize; at += kChunkBytes)
      EXPECT_EQ(reader.read(at, origin.listed()), ErrorCode::kOk) << at;
  }
  EXPECT_FALSE(isWhole(agent, dataset));
}

}  // namespace
}  // namespace hearth::testing_cluster
