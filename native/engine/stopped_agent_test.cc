// An agent that is stopped, as by SIGSTOP: its connections stay, and nothing comes.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "engine/testing_cluster.h"
#include "fetch/fetch_run.h"
#include "fetch/fetcher.h"
#include "transport/testing/forwarding_transport.h"

namespace hearth::testing_cluster {
namespace {

// All shards of an agent stand still while it lives.
class Stopped {
 public:
  explicit Stopped(Agent& agent) {
    for (const auto& shard : agent.engine().commons().shards) {
      ++left_;
      shard->reactor->post([this] {
        std::unique_lock lock(mutex_);
        ++standing_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return over_; });
        --left_;
        changed_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return standing_ == left_; });
  }
  ~Stopped() {
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return left_ == 0; });
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t standing_ = 0, left_ = 0;
  bool over_ = false;
};

// What a reader that misses a chunk waits for.
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

TEST(StoppedAgent, ADemandReadGoesToTheOtherHolder) {
  Agent stopped("stopped"), live("live"), reader("reader");
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
    for (std::uint32_t chunk = 2; chunk < 8; ++chunk) {
      const auto before = Clock::now();
      const Status status = reader.await(demandChunk(reader.engine(), dataset, chunk));
      EXPECT_TRUE(status.ok()) << status.error().message;
      EXPECT_LT(Clock::now() - before, kPeerTimeout) << "it waits for the stopped one";
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
    // No other agent holds it: the origin does.
    const Stopped still(holder);
    EXPECT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 1)).ok());
  }
  origin.reset();
  EXPECT_TRUE(
      eventually([&] { return reader.await(demandChunk(reader.engine(), dataset, 2)).ok(); }));
}

// How long an agent lets others be silent when it reads from them.
class WatchedTransport final : public testing_rails::ForwardingTransport {
 public:
  struct Seen {
    std::mutex mutex;
    std::vector<Clock::duration> silences;
  };
  WatchedTransport(std::unique_ptr<PeerTransport> inner, Seen& seen)
      : ForwardingTransport(std::move(inner)), seen_(seen) {}
  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override {
    {
      const std::lock_guard lock(seen_.mutex);
      seen_.silences.push_back(timeouts.silence);
    }
    return ForwardingTransport::read(std::move(node), key, offset, std::move(into), blockChecksums,
                                     timeouts, requestClass);
  }

 private:
  Seen& seen_;
};

// Who is silent is waited for longer when no other holds the chunk. silent_peer_test.cc shows that
// a read ends after the silence that it is given.
TEST(StoppedAgent, IsWaitedForLongerWhenItAloneHoldsTheChunk) {
  WatchedTransport::Seen seen;
  const auto watched = [&seen](EngineOptions& options) {
    options.transport = [&seen](Reactor& reactor, TransportOptions transport,
                                PeerHandler& handler) -> std::unique_ptr<PeerTransport> {
      return std::make_unique<WatchedTransport>(
          PeerTransport::create(reactor, std::move(transport), handler), seen);
    };
  };
  Agent one("one"), two("two"), reader("reader", watched);
  connect({&one, &two, &reader});
  Origin ofOne, ofBoth;
  ofOne.add("alone", kChunkBytes);
  ofBoth.add("both", kChunkBytes);
  const auto warm = [](Agent& agent, const Origin& origin) {
    agent.beginWarm(agent.add(origin));
    EXPECT_EQ(agent.awaitWarm().state, WarmState::kSucceeded);
    EXPECT_TRUE(agent.engine().cancelWarm("warm").ok());
  };
  warm(one, ofOne);
  warm(one, ofBoth);
  warm(two, ofBoth);
  const auto silencesOf = [&](const Origin& origin) {
    const auto dataset = reader.add(origin);
    EXPECT_TRUE(reader.await(demandChunk(reader.engine(), dataset, 0)).ok());
    const std::lock_guard lock(seen.mutex);
    return std::exchange(seen.silences, {});
  };
  EXPECT_EQ(silencesOf(ofOne), std::vector<Clock::duration>{kSilenceAlone});
  EXPECT_EQ(silencesOf(ofBoth), std::vector<Clock::duration>{kSilenceWithOthers});
}

}  // namespace
}  // namespace hearth::testing_cluster
