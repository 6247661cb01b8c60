// Warm jobs that bring whole objects by one request each.
#include <deque>
#include <set>

#include "engine/loopback_server.h"
#include "fetch/fetcher.h"
#include "fetch/origin_stream.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kFiles = 8;
constexpr std::uint64_t kSize = 6 * kChunkBytes - 1000;

// Enough memory for two runs of every file.
void enoughForAll(EngineOptions& options) { options.bufferBytes = 96 * kChunkBytes; }

struct StreamedFilesTest : testing::Test {
  using Ranges = std::multiset<std::pair<std::uint64_t, std::uint64_t>>;

  static constexpr std::pair<std::uint64_t, std::uint64_t> kWhole{0, kSize - 1};

  // All files have the same bytes.
  void add(Agent& agent) {
    ManifestBuilder builder(false);
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      ManifestRow row;
      row.path = "file" + std::to_string(i);
      row.size = kSize;
      row.validator = "etag:\"1\"";
      row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
      builder.add(std::move(row));
    }
    const auto added = agent.await(agent.engine().manifests().add(*builder.build()));
    ASSERT_TRUE(added.ok());
    dataset = *added;
    dataset->locations.setBase(server->location());
  }
  void serve(RangeServer::Body body) {
    server.emplace(kSize,
                   [this, body = std::move(body)](int fd, std::uint64_t first, std::uint64_t last) {
                     {
                       const std::lock_guard lock(mutex);
                       asked.emplace(first, last);
                     }
                     body(fd, first, last);
                   });
  }
  void give(int fd, std::uint64_t first, std::uint64_t last) const {
    RangeServer::send(fd, {bytes.data() + first, static_cast<std::size_t>(last - first + 1)});
  }
  [[nodiscard]] std::size_t timesAsked(std::pair<std::uint64_t, std::uint64_t> range) {
    const std::lock_guard lock(mutex);
    return asked.count(range);
  }
  void expectRight(Agent& agent) {
    constexpr std::uint64_t kStep = 3 * kChunkBytes;
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      for (std::uint64_t offset = 0; offset < kSize; offset += kStep) {
        const auto got = agent.await(agent.engine().contents().read(dataset, entry, offset, kStep));
        ASSERT_TRUE(got.ok()) << got.error().message;
        ASSERT_EQ(got->size(), std::min(kStep, kSize - offset));
        EXPECT_EQ(std::memcmp(got->data(), bytes.data() + offset, got->size()), 0) << entry;
      }
    }
  }
  // On a server's thread.
  void hold() const {
    while (!released && !server->stopping())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void expectOnceFromOrigin(Agent& agent) {
    const WarmProgress progress = agent.awaitWarm();
    ASSERT_EQ(progress.state, WarmState::kSucceeded)
        << (progress.error ? progress.error->message : "");
    EXPECT_EQ(progress.originBytes, kFiles * kSize);
    expectRight(agent);
  }

  // Cancels a job in the middle of its answers; returns the bytes that the agent keeps. `changes`:
  // the objects are others by then.
  [[nodiscard]] std::uint64_t keptOfACancelledJob(bool changes);

  const std::vector<char> bytes = pattern(kSize, 1);
  std::mutex mutex;
  Ranges asked;
  std::atomic<bool> released{false};
  std::atomic<bool> changed{false};
  std::optional<RangeServer> server;
  std::shared_ptr<Dataset> dataset;
};

TEST_F(StreamedFilesTest, BringsEachByOneRequest) {
  serve([this](int fd, auto first, auto last) { give(fd, first, last); });
  Agent agent("a", enoughForAll);
  add(agent);
  agent.beginWarm(dataset);
  expectOnceFromOrigin(agent);
  // A machine that does nothing for a second ends a stream, and the job asks for the rest by
  // ranges.
  EXPECT_GE(timesAsked(kWhole), 1u);
}

TEST_F(StreamedFilesTest, BringsThemInLessMemoryThanTheyWant) {
  serve([this](int fd, auto first, auto last) { give(fd, first, last); });
  Agent agent("a", [](EngineOptions& options) { options.bufferBytes = 16 * kChunkBytes; });
  add(agent);
  agent.beginWarm(dataset);
  expectOnceFromOrigin(agent);
}

TEST_F(StreamedFilesTest, GivesReadersOfLaterChunksTheirOwnRequest) {
  serve([&](int fd, std::uint64_t first, std::uint64_t last) {
    if (std::pair(first, last) != kWhole) return give(fd, first, last);
    give(fd, 0, kChunkBytes - 1);
    hold();
    give(fd, kChunkBytes, last);
  });
  Agent agent("a", enoughForAll);
  add(agent);
  agent.beginWarm(dataset);
  ASSERT_TRUE(eventually([&] { return timesAsked(kWhole) == kFiles; }));
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const std::uint64_t offset = 4 * kChunkBytes;
    const auto got = agent.await(agent.engine().contents().read(dataset, entry, offset, 1000));
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(std::memcmp(got->data(), bytes.data() + offset, 1000), 0);
  }
  released = true;
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kSucceeded);
  EXPECT_EQ(progress.originBytes, kFiles * kSize) << "no chunk is taken twice";
  expectRight(agent);
}

TEST_F(StreamedFilesTest, GoesOnBehindAnAnswerThatBreaksOff) {
  serve([this](int fd, std::uint64_t first, std::uint64_t last) {
    const bool cut = std::pair(first, last) == kWhole;
    give(fd, first, cut ? 3 * kChunkBytes + 10'000 : last);
  });
  Agent agent("a");
  add(agent);
  agent.beginWarm(dataset);
  expectOnceFromOrigin(agent);
  EXPECT_GE(timesAsked({3 * kChunkBytes + 10'001, kSize - 1}), 1u);
}

TEST_F(StreamedFilesTest, EndsWithAJobThatIsCancelled) {
  serve([&](int fd, std::uint64_t first, std::uint64_t last) {
    give(fd, first, first + kChunkBytes);
    hold();
    give(fd, first + kChunkBytes + 1, last);
  });
  Agent agent("a", enoughForAll);
  add(agent);
  agent.beginWarm(dataset);
  ASSERT_TRUE(eventually([&] { return timesAsked(kWhole) == kFiles; }));
  ASSERT_TRUE(agent.engine().cancelWarm("warm").ok());
  released = true;
  const WarmProgress progress = agent.awaitWarm();
  EXPECT_EQ(progress.state, WarmState::kCancelled);
  EXPECT_LE(progress.originBytes, kFiles * 4 * kChunkBytes) << "the runs under way";
}

TEST_F(StreamedFilesTest, AnEngineEndsWhileItsStreamsHang) {
  serve([&](int fd, std::uint64_t first, std::uint64_t) {
    give(fd, first, first + 1000);
    hold();
  });
  {
    Agent agent("a", enoughForAll);
    add(agent);
    agent.beginWarm(dataset);
    ASSERT_TRUE(eventually([&] { return timesAsked(kWhole) == kFiles; }));
  }
  EXPECT_EQ(timesAsked(kWhole), kFiles);
}

TEST_F(StreamedFilesTest, ComesInRunsWhereOtherAgentsMayWantTheSame) {
  serve([this](int fd, auto first, auto last) { give(fd, first, last); });
  Agent a("a"), b("b");
  connect({&a, &b});
  add(a);
  a.beginWarm(dataset);
  EXPECT_EQ(a.awaitWarm().state, WarmState::kSucceeded);
  expectRight(a);
  EXPECT_EQ(timesAsked(kWhole), 0u) << "they would show in the first bytes";
}

std::uint64_t StreamedFilesTest::keptOfACancelledJob(bool changes) {
  serve([this](int fd, std::uint64_t first, std::uint64_t last) {
    if (std::pair(first, last) != kWhole) return give(fd, first, last);
    give(fd, 0, 4 * kChunkBytes - 1);
    hold();
  });
  server->refuse([this]() -> std::string {
    if (!changed) return "";
    return "HTTP/1.1 412 Changed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  Agent agent("agent", enoughForAll);
  add(agent);
  const auto kept = [&] {
    std::uint64_t sum = 0;
    for (const std::uint32_t entry : filesOf(*dataset->manifest))
      sum += agent.engine().commons().cache->residentBytes(dataset->manifest->entry(entry).key);
    return sum;
  };
  agent.beginWarm(dataset);
  EXPECT_TRUE(eventually([&] { return kept() >= 4 * kChunkBytes; }));
  changed = changes;
  EXPECT_TRUE(agent.engine().cancelWarm("warm").ok());
  released = true;
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kCancelled);
  return kept();
}

TEST_F(StreamedFilesTest, KeepsWhatACancelledJobBrought) {
  EXPECT_GE(keptOfACancelledJob(false), 4 * kChunkBytes);
}

TEST_F(StreamedFilesTest, KeepsNothingThatACancelledJobBroughtOfObjectsThatChanged) {
  EXPECT_EQ(keptOfACancelledJob(true), 0U);
}

// The rest comes by ranges, which are refused.
TEST_F(StreamedFilesTest, KeepsNothingOfAnObjectThatChangedWhenItsAnswerBrokeOff) {
  serve([this](int fd, std::uint64_t first, std::uint64_t last) {
    give(fd, first, std::pair(first, last) == kWhole ? 4 * kChunkBytes - 1 : last);
    changed = true;
  });
  server->refuse([this]() -> std::string {
    if (!changed) return "";
    return "HTTP/1.1 412 Changed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  Agent agent("agent", enoughForAll);
  add(agent);
  agent.beginWarm(dataset);
  const WarmProgress progress = agent.awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kFailed);
  EXPECT_EQ(progress.error->code, ErrorCode::kOriginChanged);
  for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
    const ContentKey key = dataset->manifest->entry(entry).key;
    EXPECT_EQ(agent.engine().commons().cache->residentBytes(key), 0U) << entry;
  }
}

// Brings the first file by one request, run by run, as a warm job does.
Task<Status> bringByStream(Engine& engine, std::shared_ptr<Dataset> of) {
  const FileReference file = FileReference::of(of, filesOf(*of->manifest).front());
  Shard& shard = engine.commons().owner(file.about.key);
  co_await shard.reactor->enter();
  const auto opened = co_await shard.fetcher->open(file);
  Status status = opened.ok() ? Status() : Status(opened.error());
  if (status.ok()) {
    FetchOptions options{.priority = Priority::kBackground};
    options.until = FetchOptions::Until::kInMemory;
    options.stream = shard.fetcher->stream(**opened);
    const std::uint32_t chunks = (*opened)->cache->chunkCount();
    for (std::uint32_t chunk = 0; status.ok() && chunk < chunks; chunk += kRunChunks) {
      const std::uint32_t end = std::min(chunk + kRunChunks, chunks);
      Task<Status> landing = shard.fetcher->ensure(*opened, chunk, end, options);
      status = co_await landing;
    }
    options.stream->end();
  }
  co_await engine.home().enter();
  co_return status;
}

// One answer has a half of each of two states, under the tag of the first one.
TEST_F(StreamedFilesTest, KeepsNothingOfAnObjectThatChangedMeanwhile) {
  const std::vector<char> next = pattern(kSize, 2);
  serve([&](int fd, std::uint64_t first, std::uint64_t last) {
    give(fd, first, last / 2);
    changed = true;
    RangeServer::send(fd, {next.data() + last / 2 + 1, static_cast<std::size_t>(last - last / 2)});
  });
  server->refuse([&]() -> std::string {
    if (!changed) return "";
    return "HTTP/1.1 412 Changed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  Agent agent("agent", enoughForAll);
  add(agent);
  const Status brought = agent.await(bringByStream(agent.engine(), dataset));
  EXPECT_EQ(brought.code(), ErrorCode::kOriginChanged);
  EXPECT_EQ(timesAsked(kWhole), 1U);
  const ContentKey key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
  EXPECT_EQ(agent.engine().commons().cache->residentBytes(key), 0U);
}

}  // namespace
}  // namespace hearth::testing_cluster
