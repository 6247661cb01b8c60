// An agent that is stopped, as by SIGSTOP: its connections stay, and nothing comes.
#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "engine/testing_stopped.h"
#include "fetch/fetch_run.h"
#include "fetch/fetcher.h"
#include "transport/testing/forwarding_transport.h"

namespace hearth::testing_cluster {
namespace {

// The waits of a reader that misses a chunk.
Task<Status> demandChunk(Engine& engine, std::shared_ptr<Dataset> dataset, std::uint32_t chunk) {
  const FileReference file = FileReference::of(dataset, filesOf(*dataset->manifest).front());
  Shard& shard = engine.commons().owner(file.about.key);
  co_await shard.reactor->enter();
  auto opened = co_await shard.fetcher->open(file);
  Status status = opened.ok() ? Status() : Status(opened.error());
  if (opened.ok()) {
    status = co_await shard.fetcher->ensure(*opened, chunk, chunk + 1, FetchOptions{});
  }
  co_await engine.home().enter();
  co_return status;
}

// Records an agent's requests to others, and how long it lets them be silent.
class WatchedTransport final : public testing_rails::ForwardingTransport {
 public:
  struct Read {
    std::string node;
    Clock::duration silence;
    bool ok = false;  // valid once the read has ended
  };
  struct Seen {
    std::mutex mutex;
    std::vector<Read> reads;  // in the order of their beginnings
    std::vector<Read> take() {
      const std::lock_guard lock(mutex);
      return std::exchange(reads, {});
    }
  };
  WatchedTransport(std::unique_ptr<PeerTransport> inner, Seen& seen)
      : ForwardingTransport(std::move(inner)), seen_(seen) {}
  // Changes an agent's options.
  static auto watching(Seen& seen) {
    return [&seen](EngineOptions& options) {
      options.transport = [&seen](Reactor& reactor, TransportOptions transport,
                                  PeerHandler& handler) -> std::unique_ptr<PeerTransport> {
        return std::make_unique<WatchedTransport>(
            PeerTransport::create(reactor, std::move(transport), handler), seen);
      };
    };
  }
  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override {
    std::size_t at = 0;
    {
      const std::lock_guard lock(seen_.mutex);
      at = seen_.reads.size();
      seen_.reads.push_back({node, timeouts.silence});
    }
    Status status = co_await ForwardingTransport::read(
        std::move(node), key, offset, std::move(into), blockChecksums, timeouts, requestClass);
    const std::lock_guard lock(seen_.mutex);
    if (at < seen_.reads.size()) seen_.reads[at].ok = status.ok();
    co_return status;
  }

 private:
  Seen& seen_;
};

TEST(StoppedAgent, ADemandReadGoesToTheOtherHolder) {
  WatchedTransport::Seen seen;
  Agent stopped("stopped"), live("live"), reader("reader", WatchedTransport::watching(seen));
  connect({&stopped, &live, &reader});
  // Several, so that the stopped agent is the directory of some and not of others.
  for (int round = 0; round < 4; ++round) {
    auto origin = std::make_unique<Origin>();
    origin->add("model", 8 * kChunkBytes);
    for (Agent* const agent : {&stopped, &live}) {
      agent->beginWarm(agent->add(*origin));
      ASSERT_EQ(agent->awaitWarm().state, WarmState::kSucceeded);
      ASSERT_TRUE(agent->engine().cancelWarm("warm").ok());
    }
    const auto dataset = reader.add(*origin);
    origin.reset();
    // Both are connected and known.
    ASSERT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 0)).ok());
    ASSERT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 1)).ok());
    const Stopped still(stopped);
    seen.take();
    for (std::uint32_t chunk = 2; chunk < 8; ++chunk) {
      // On a busy machine the other holder may be silent for as long: then the reader asks the
      // first again.
      Status status = Error{ErrorCode::kUnavailable, "not asked for"};
      for (int tries = 0; !status.ok() && tries < kTries; ++tries)
        status = reader.await(demandChunk(reader.engine(), dataset, chunk));
      EXPECT_TRUE(status.ok()) << status.error().message;
      const std::vector<WatchedTransport::Read> reads = seen.take();
      ASSERT_FALSE(reads.empty());
      EXPECT_EQ(reads.back().node, "live");
      EXPECT_TRUE(reads.back().ok);
      // silent_peer_test.cc shows that a read ends after the silence that it is given.
      for (const auto& read : reads) EXPECT_LE(read.silence, kSilenceAlone) << read.node;
    }
  }
}

TEST(StoppedAgent, ComesBackWhenItGoesOn) {
  Agent holder("holder"), reader("reader");
  connect({&holder, &reader});
  auto origin = std::make_unique<Origin>();
  origin->add("model", 4 * kChunkBytes);
  holder.beginWarm(holder.add(*origin));
  ASSERT_EQ(holder.awaitWarm().state, WarmState::kSucceeded);
  const auto dataset = reader.add(*origin);
  ASSERT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 0)).ok());
  {
    // No other agent holds the chunk, but the origin does.
    const Stopped still(holder);
    EXPECT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 1)).ok());
  }
  origin.reset();
  EXPECT_TRUE(
      eventually([&] { return reader.await(demandChunk(reader.engine(), dataset, 2)).ok(); }));
}

// A reader waits longer for a silent holder when no other agent holds the chunk.
// silent_peer_test.cc shows that a read ends after the silence that it is given.
TEST(StoppedAgent, IsWaitedForLongerWhenItAloneHoldsTheChunk) {
  WatchedTransport::Seen seen;
  Agent one("one"), two("two"), reader("reader", WatchedTransport::watching(seen));
  connect({&one, &two, &reader});
  const auto warm = [](Agent& agent, const Origin& origin) {
    agent.beginWarm(agent.add(origin));
    EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    EXPECT_TRUE(agent.engine().cancelWarm("warm").ok());
  };
  const auto silencesOf = [&](const Origin& origin) {
    const auto dataset = reader.add(origin);
    EXPECT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 0)).ok());
    std::vector<Clock::duration> silences;
    for (const auto& read : seen.take()) silences.push_back(read.silence);
    return silences;
  };
  const std::vector<Clock::duration> alone{kSilenceAlone}, withOthers{kSilenceWithOthers};
  std::vector<Clock::duration> ofOne, ofBoth;
  // On a busy machine a silence may be over, and another one is asked.
  for (int tries = 0; (ofOne != alone || ofBoth != withOthers) && tries < kTries; ++tries) {
    Origin heldByOne, heldByBoth;
    heldByOne.add("alone", kChunkBytes);
    heldByBoth.add("both", kChunkBytes);
    warm(one, heldByOne);
    warm(one, heldByBoth);
    warm(two, heldByBoth);
    ofOne = silencesOf(heldByOne);
    ofBoth = silencesOf(heldByBoth);
  }
  EXPECT_EQ(ofOne, alone);
  EXPECT_EQ(ofBoth, withOthers);
}

// Two agents wait for an origin that is away. The one that has the grant, or is the directory, when
// the origin is back stands still.
TEST(StoppedAgent, LeavesItsGrantsToReadersWhoWaitForTheOrigin) {
  constexpr std::uint64_t kBytes = 2 * kChunkBytes;
  const std::vector<char> bytes = pattern(kBytes, 1);
  std::atomic<bool> away{true};
  RangeServer server(kBytes, [&](int fd, std::uint64_t first, std::uint64_t last) {
    RangeServer::send(fd, {bytes.data() + first, static_cast<std::size_t>(last - first + 1)});
  });
  server.refuse([&]() -> std::string {
    if (!away) return "";
    return "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  Agent stopped("stopped"), reader("reader");
  connect({&stopped, &reader});
  // Several files, so that the stopped agent is the directory of some and not of others.
  ManifestBuilder builder(false);
  for (int i = 0; i < 4; ++i) {
    ManifestRow row;
    row.path = "file" + std::to_string(i);
    row.size = kBytes;
    row.validator = "etag:\"1\"";
    row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
    builder.add(std::move(row));
  }
  const std::vector<std::byte> manifest = *builder.build();
  std::vector<std::future<Result<std::vector<std::byte>>>> reads;
  std::vector<std::shared_ptr<Dataset>> datasets;
  for (Agent* const agent : {&reader, &stopped}) {
    const auto dataset = *agent->await(agent->engine().manifests().add(manifest));
    dataset->locations.setBase(server.location());
    datasets.push_back(dataset);
    for (const std::uint32_t entry : filesOf(*dataset->manifest)) {
      reads.push_back(std::async(std::launch::async, [agent, dataset, entry] {
        return agent->await(agent->engine().contents().read(dataset, entry, 0, kBytes));
      }));
    }
  }
  for (const auto& dataset : datasets)
    ASSERT_TRUE(eventually([&] { return !dataset->absence.words().empty(); }));
  std::size_t read = 0;
  {
    const Stopped still(stopped);
    away = false;
    for (; read < reads.size() / 2; ++read) {
      const auto got = reads[read].get();
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0);
    }
  }
  for (; read < reads.size(); ++read) EXPECT_TRUE(reads[read].get().ok());
}

}  // namespace
}  // namespace hearth::testing_cluster
