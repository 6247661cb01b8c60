// Files whose origin gives a digest: compared as they come, and never served whole before.
#include "warm/file_verifier.h"

#include "base/crc32c.h"
#include "engine/testing_cluster.h"
#include "fetch/fetcher.h"
#include "mount/dataset_source.h"
#include "mount/resident_read.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::connect;
using testing_cluster::pattern;
using testing_cluster::TemporaryFolder;

constexpr std::size_t kSize = 22'000'000;  // six chunks

// One file in a folder, listed with its digest, and with nothing that would show a change: as hubs
// and plain HTTP servers list files.
class DigestOrigin {
 public:
  explicit DigestOrigin(unsigned seed, std::size_t size = kSize) : listed_(pattern(size, seed)) {
    write(listed_);
  }

  void write(const std::vector<char>& bytes) {
    std::ofstream(folder_.path("model"), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void restore() { write(listed_); }
  void remove() { std::filesystem::remove(folder_.path("model")); }
  [[nodiscard]] const std::vector<char>& listed() const { return listed_; }

  std::shared_ptr<Dataset> addTo(Agent& agent) const {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "model";
    row.size = listed_.size();
    row.sourceDigest = Sha256::of(std::as_bytes(std::span(listed_)));
    row.key.bytes = *row.sourceDigest;
    builder.add(std::move(row));
    auto manifest = builder.build();
    EXPECT_TRUE(manifest.ok());
    auto added = agent.await(agent.engine().manifests().add(std::move(*manifest)));
    EXPECT_TRUE(added.ok());
    Location base;
    base.path = base.below = folder_.path();
    (*added)->locations.setBase(std::move(base));
    return *added;
  }

 private:
  TemporaryFolder folder_;
  const std::vector<char> listed_;
};

Shard& ownerOf(Agent& agent, const Dataset& dataset) {
  return agent.engine().commons().owner(dataset.manifest->entry(filesOf(*dataset.manifest)[0]).key);
}

std::uint32_t fileOf(const Dataset& dataset) { return filesOf(*dataset.manifest)[0]; }

Result<std::vector<std::byte>> read(Agent& agent, const std::shared_ptr<Dataset>& dataset,
                                    std::uint64_t offset, std::uint64_t length) {
  return agent.await(agent.engine().contents().read(dataset, fileOf(*dataset), offset, length));
}

bool same(const Result<std::vector<std::byte>>& got, const std::vector<char>& all,
          std::uint64_t offset) {
  return got.ok() && std::memcmp(got->data(), all.data() + offset, got->size()) == 0;
}

// True once the file may be served as a whole.
bool becomesWhole(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  const ContentKey key = dataset->manifest->entry(fileOf(*dataset)).key;
  return eventually([&] { return agent.engine().commons().cache->verifiedWhole(key); });
}

Task<std::shared_ptr<FileFetch>> openHere(Shard& owner, FileReference file) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  co_return opened.ok() ? *opened : nullptr;
}

std::shared_ptr<FileFetch> onlyFileOf(Agent& agent, const std::shared_ptr<Dataset>& dataset) {
  Shard& owner = ownerOf(agent, *dataset);
  return runOn(*owner.reactor, openHere(owner, FileReference::of(dataset, fileOf(*dataset))));
}

// Puts a chunk in memory alone, as a read-through does; null removes it.
Task<bool> passHere(Shard& owner, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk,
                    std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    if (const auto loaded = fetch->loaded.find(chunk)) fetch->loaded.erase(chunk, *loaded);
    co_return true;
  }
  std::vector<ChunkBuffer> buffer = co_await owner.originBuffers->acquire(Priority::kDemand, 1);
  auto loaded = loadInto(*owner.reactor, std::move(buffer.front()), bytes.size());
  std::memcpy(loaded->bytes.data(), bytes.data(), bytes.size());
  fetch->loaded.put(chunk, std::move(loaded));
  co_return true;
}

Task<Status> storeHere(Shard& owner, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk,
                       std::span<const std::byte> bytes) {
  const std::vector<std::uint32_t> checksums = crc32cOfBlocks(bytes, kBlockBytes);
  const Status written = co_await fetch->cache->writeChunk(chunk, bytes, checksums);
  owner.verifier->opened(fetch);
  co_return written;
}

Task<bool> hashingHere(std::shared_ptr<FileFetch> fetch) {
  const std::shared_ptr<InOrderHash> hash = fetch->shared->hash;
  co_return hash == nullptr || hash->running;
}

Task<bool> wantedHere(Shard& owner, ContentKey key) {
  co_return owner.wanted->find(key) != nullptr;
}

TEST(FileVerifier, ComparesWhatReadersFetchAndGivesNoViewBefore) {
  DigestOrigin origin(1);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  const ContentKey key = dataset->manifest->entry(fileOf(*dataset)).key;
  // Out of order: the last chunks first.
  for (std::uint64_t at : {std::uint64_t{16} << 20, std::uint64_t{8} << 20, std::uint64_t{0}}) {
    EXPECT_TRUE(same(read(agent, dataset, at, 8u << 20), origin.listed(), at));
  }
  EXPECT_TRUE(becomesWhole(agent, dataset));
  EXPECT_EQ(agent.engine().commons().cache->residentBytes(key), kSize);
  EXPECT_TRUE(agent.await(agent.engine().contents().buildView(dataset)).ok());
}

TEST(FileVerifier, AJobWithDigestsReadsNothingBack) {
  DigestOrigin origin(2);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  WarmOptions options;
  options.job = "warm";
  options.dataset = dataset;
  options.entries = filesOf(*dataset->manifest);
  options.verify = Verification::kDigest;
  ASSERT_TRUE(agent.engine().warm(std::move(options)).ok());
  const WarmProgress progress = agent.awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kSucceeded) << progress.error->message;
  EXPECT_EQ(progress.filesVerified, 1u);
  EXPECT_EQ(progress.bytesVerified, kSize);
  EXPECT_TRUE(agent.engine().commons().cache->verifiedWhole(
      dataset->manifest->entry(fileOf(*dataset)).key));
  EXPECT_EQ(ownerOf(agent, *dataset).verifier->bytesReadBack(), 0u);
}

// The origin changes between two chunks of the file: the cache has a mixture.
TEST(FileVerifier, NeverServesAMixtureAsAWhole) {
  DigestOrigin origin(3);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  ASSERT_TRUE(read(agent, dataset, 0, 4u << 20).ok());
  origin.write(pattern(kSize, 99));
  const std::uint64_t later = 8u << 20;
  for (std::uint64_t at = later; at < kSize; at += later) (void)read(agent, dataset, at, later);
  // The origin is right again: the second fetch, from the origin, is good.
  origin.restore();
  (void)read(agent, dataset, 0, 8u << 20);
  auto view = agent.await(agent.engine().contents().buildView(dataset));
  ASSERT_TRUE(eventually([&] {
    if (view.ok()) return true;
    EXPECT_EQ(view.code(), ErrorCode::kNotFound) << view.error().message;
    view = agent.await(agent.engine().contents().buildView(dataset));
    return view.ok();
  }));
  EXPECT_EQ(agent.await(agent.engine().statistics()).digestMismatches, 1u);
  std::ifstream file(*view + "/model", std::ios::binary);
  const std::vector<char> seen{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(seen == origin.listed());
  // Mounts do not keep the bytes that readers got before.
  EXPECT_NE(agent.engine().commons().withdrawn.mark(dataset->manifest->entry(fileOf(*dataset)).key),
            0u);
}

TEST(FileVerifier, RefusesAFileThatDiffersAgain) {
  DigestOrigin origin(4);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  origin.write(pattern(kSize, 98));
  agent.beginWarm(dataset, Verification::kDigest);
  const WarmProgress progress = agent.awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kCorrupt);
  EXPECT_EQ(agent.await(agent.engine().statistics()).digestMismatches, 2u);
  EXPECT_EQ(read(agent, dataset, 0, 1000).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(
      agent.engine().commons().cache->residentBytes(dataset->manifest->entry(fileOf(*dataset)).key),
      0u);
}

// A mount gives a complete file to the kernel only when it is what its digest says.
TEST(FileVerifier, PassesNothingThroughBeforeTheComparison) {
  DigestOrigin origin(5);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", true);
  {
    auto file = source.openFile(fileOf(*dataset));
    ASSERT_TRUE(file.ok());
    EXPECT_FALSE(source.complete(fileOf(*dataset)));
    EXPECT_EQ((*file)->backing().code(), ErrorCode::kNotFound);
    ASSERT_TRUE(read(agent, dataset, 0, 4u << 20).ok());
    origin.write(pattern(kSize, 97));
    // The whole file is here now and then, but never right.
    for (std::uint64_t at = 0; at < kSize; at += 4u << 20) {
      (void)read(agent, dataset, at, 4u << 20);
      EXPECT_FALSE(source.complete(fileOf(*dataset)));
      EXPECT_FALSE((*file)->backing().ok());
    }
  }
}

// Memory need not have the bytes of the file: a read-through chunk comes again later, and may then
// be another.
TEST(FileVerifier, ComparesTheBytesOfTheFileOnly) {
  DigestOrigin origin(6);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Shard& owner = ownerOf(agent, *dataset);
  const std::shared_ptr<FileFetch> fetch = onlyFileOf(agent, dataset);
  ASSERT_NE(fetch, nullptr);
  const auto listed = std::as_bytes(std::span(origin.listed()));
  ASSERT_TRUE(runOn(*owner.reactor, passHere(owner, fetch, 0, listed.first(kChunkBytes))));
  for (std::uint64_t chunk = 1; chunk < 5; ++chunk) {
    const std::uint64_t at = chunk * kChunkBytes;
    EXPECT_TRUE(same(read(agent, dataset, at, 1000), origin.listed(), at));
  }
  // The first chunk is hashed, if at all, while it is only in memory.
  ASSERT_TRUE(eventually([&] {
    return fetch->cache->residentBytes() == 4 * kChunkBytes &&
           !runOn(*owner.reactor, hashingHere(fetch));
  }));
  ASSERT_TRUE(runOn(*owner.reactor, passHere(owner, fetch, 0, {})));
  origin.write(pattern(kSize, 96));
  ASSERT_TRUE(read(agent, dataset, 0, 1000).ok());
  ASSERT_TRUE(eventually([&] { return fetch->cache->resident(0); }));
  origin.restore();
  ASSERT_TRUE(read(agent, dataset, 5 * kChunkBytes, 1000).ok());

  ASSERT_TRUE(becomesWhole(agent, dataset));
  EXPECT_EQ(agent.await(agent.engine().statistics()).digestMismatches, 1u);
  const auto view = agent.await(agent.engine().contents().buildView(dataset));
  ASSERT_TRUE(view.ok()) << view.error().message;
  std::ifstream file(*view + "/model", std::ios::binary);
  const std::vector<char> seen{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(seen == origin.listed());
}

// Readers get no bytes that the digest has shown to be wrong: the memory of a chunk lives for a
// moment, and longer while it is read.
TEST(FileVerifier, ReadsNoWrongBytesFromMemory) {
  DigestOrigin origin(8);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Shard& owner = ownerOf(agent, *dataset);
  const std::shared_ptr<FileFetch> fetch = onlyFileOf(agent, dataset);
  ASSERT_NE(fetch, nullptr);
  const std::vector<char> other = pattern(kSize, 94);
  const auto wrong = std::as_bytes(std::span(other));
  origin.write(other);
  ASSERT_TRUE(read(agent, dataset, 0, 2 * kChunkBytes).ok());
  ASSERT_TRUE(eventually([&] { return fetch->cache->residentBytes() == 2 * kChunkBytes; }));
  ASSERT_TRUE(runOn(*owner.reactor, passHere(owner, fetch, 0, wrong.first(kChunkBytes))));
  origin.remove();
  for (std::uint32_t chunk = 2; chunk < fetch->cache->chunkCount(); ++chunk) {
    const std::uint64_t at = chunk * kChunkBytes;
    ASSERT_TRUE(runOn(*owner.reactor,
                      storeHere(owner, fetch, chunk, wrong.subspan(at, fetch->chunkSize(chunk))))
                    .ok());
  }
  ASSERT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).digestMismatches == 1 &&
           !runOn(*owner.reactor, hashingHere(fetch));
  }));
  EXPECT_FALSE(fromMemory(*fetch, 0, 1000).has_value());
  EXPECT_FALSE(read(agent, dataset, 0, 1000).ok());
}

// The file's only chunk is compared before its run has done with it.
TEST(FileVerifier, ASmallFileThatDiffersDoesNotStayInMemory) {
  constexpr std::uint64_t kSmall = 50'000;
  DigestOrigin origin(9, kSmall);
  Agent agent("one");
  const auto dataset = origin.addTo(agent);
  Shard& owner = ownerOf(agent, *dataset);
  const std::shared_ptr<FileFetch> fetch = onlyFileOf(agent, dataset);
  ASSERT_NE(fetch, nullptr);
  origin.write(pattern(kSmall, 93));
  (void)read(agent, dataset, 0, 1000);
  ASSERT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).digestMismatches >= 1 &&
           !runOn(*owner.reactor, hashingHere(fetch));
  }));
  EXPECT_FALSE(fromMemory(*fetch, 0, 1000).has_value());
}

// The origin is away just when the file is to be fetched from it alone. A later reader must not get
// the wrong bytes from the same agent again, and be refused for it.
TEST(FileVerifier, FetchesAWrongFileFromTheOriginAloneLaterToo) {
  DigestOrigin origin(7);
  Agent wrong("wrong"), right("right"), agent("one");
  connect({&wrong, &right, &agent});
  const auto ofWrong = origin.addTo(wrong);
  const auto ofRight = origin.addTo(right);
  const auto dataset = origin.addTo(agent);
  origin.write(pattern(kSize, 95));
  ASSERT_TRUE(read(wrong, ofWrong, 0, 2 * kChunkBytes).ok());
  origin.restore();
  ASSERT_TRUE(read(right, ofRight, 2 * kChunkBytes, kSize - 2 * kChunkBytes).ok());
  const auto held = [](Agent& of, const std::shared_ptr<Dataset>& listed) {
    return of.engine().commons().cache->residentBytes(listed->manifest->entry(fileOf(*listed)).key);
  };
  ASSERT_TRUE(eventually([&] { return held(wrong, ofWrong) == 2 * kChunkBytes; }));
  ASSERT_TRUE(eventually([&] { return held(right, ofRight) == kSize - 2 * kChunkBytes; }));

  origin.remove();
  EXPECT_TRUE(read(agent, dataset, 0, 3 * kChunkBytes).ok());
  EXPECT_TRUE(read(agent, dataset, 3 * kChunkBytes, kSize - 3 * kChunkBytes).ok());
  Shard& owner = ownerOf(agent, *dataset);
  const ContentKey key = dataset->manifest->entry(fileOf(*dataset)).key;
  ASSERT_TRUE(eventually([&] {
    return agent.await(agent.engine().statistics()).digestMismatches == 1 &&
           !runOn(*owner.reactor, wantedHere(owner, key));
  }));
  origin.restore();
  agent.beginWarm(dataset, Verification::kDigest);
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded) << progress.error->message;
  EXPECT_EQ(agent.await(agent.engine().statistics()).digestMismatches, 1u);
  EXPECT_TRUE(same(read(agent, dataset, 0, 1000), origin.listed(), 0));
}

}  // namespace
}  // namespace hearth
