// The number of agents that keep a file: more with its readers, fewer when none reads it and room
// is needed, and one for as long as it is wanted.
#include <thread>

#include "directory/directory_message.h"
#include "engine/testing_partition.h"
#include "transport/testing/forwarding_transport.h"

namespace hearth::testing_cluster {
namespace {

// Sizes of agents and their files. A cache has room for the file that all want and eight parts.
struct Sizes {
  std::size_t hot = (4u << 20) + 4096;  // two chunks
  std::size_t part = 1u << 20;          // of what streams through
  std::uint64_t budget = 12u << 20;
};
// One chunk, where many agents read much.
constexpr Sizes kSmallSizes{.hot = (512u << 10) + 4096, .part = 128u << 10, .budget = 1536u << 10};
constexpr std::size_t kParts = 16;

void small(EngineOptions& options) {
  options.shards = 1;
  options.bufferBytes = 32u << 20;
  options.scrub.bytesPerSecond = 0;
}

// Loses or delays control messages of eviction, whatever the network does.
class LossyLeave final : public testing_rails::ForwardingTransport {
 public:
  LossyLeave(std::unique_ptr<PeerTransport> inner, Reactor& reactor)
      : ForwardingTransport(std::move(inner)), reactor_(reactor) {}
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override {
    const bool leave = request.type == static_cast<std::uint16_t>(DirectoryMessage::kRelease);
    const unsigned fate = leave ? ++asked_ % 4 : 3;
    const Error silence{ErrorCode::kDeadlineExceeded, "no answer"};
    if (fate == 0) co_return silence;
    Result<ControlMessage> answer =
        co_await ForwardingTransport::call(std::move(node), std::move(request), timeouts);
    if (leave) co_await reactor_.sleep(std::chrono::milliseconds(20));
    if (fate == 1) co_return silence;  // the request was executed
    co_return answer;
  }

 private:
  Reactor& reactor_;
  unsigned asked_ = 0;
};

// Agents that each read a file that all want, and files of their own that no other agent reads.
class Readers {
 public:
  explicit Readers(std::size_t count, const std::function<void(EngineOptions&)>& adjust = small,
                   Sizes of = Sizes())
      : sizes(of) {
    for (std::size_t i = 0; i < count; ++i) {
      agents.push_back(std::make_unique<Agent>(
          "n" + std::to_string(i), sizes.budget, [](EngineEvent) {}, "", adjust));
      everyone.push_back(agents.back().get());
    }
    connect(everyone);
    for (std::size_t i = 0; i < count; ++i) {
      streams.push_back(std::make_unique<Origin>());
      for (std::size_t part = 0; part < kParts; ++part)
        streams.back()->add("n" + std::to_string(i) + "-" + std::to_string(part), sizes.part);
      streamed.push_back(everyone[i]->add(*streams.back()));
    }
  }
  void want(const Origin& origin) {
    hot.clear();
    for (Agent* const agent : everyone) hot.push_back(agent->add(origin));
  }
  // Sets the last use that agents have from their store for a much used file, whose copies then
  // stay for others.
  void noteUses() {
    for (std::size_t who = 0; who < everyone.size(); ++who)
      EXPECT_TRUE(eventually([&] { return !holds(who) || durable(who); }));
    const auto ahead = WallClock::now() + std::chrono::hours(72);
    const auto at =
        std::chrono::duration_cast<std::chrono::milliseconds>(ahead.time_since_epoch()).count();
    for (std::size_t i = 0; i < everyone.size(); ++i)
      everyone[i]->engine().contents().setLastUse(*hot[i], at);
  }
  void read(std::size_t who, const std::shared_ptr<Dataset>& dataset, std::size_t index) {
    const std::uint32_t entry = filesOf(*dataset->manifest)[index];
    const std::uint64_t size = dataset->manifest->entry(entry).size;
    const auto bytes =
        everyone[who]->await(everyone[who]->engine().contents().read(dataset, entry, 0, size));
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_EQ(bytes->size(), size);
  }
  void readHot(std::size_t who) {
    read(who, hot[who], 0);
    EXPECT_TRUE(eventually([&] { return holds(who); }));
  }
  // Each agent reads the next part of its own, all at the same time. Eviction runs behind the
  // readers, and has ended afterwards.
  void streamOn() {
    std::vector<std::thread> threads;
    for (std::size_t who = 0; who < everyone.size(); ++who)
      threads.emplace_back([&, who] { read(who, streamed[who], turn_ % kParts); });
    for (std::thread& thread : threads) thread.join();
    ++turn_;
    for (Agent* const agent : everyone) expectStored(*agent);
  }
  void expectStored(Agent& agent) {
    EngineStatistics now;
    EXPECT_TRUE(eventually([&] {
      now = agent.await(agent.engine().statistics());
      return now.writeBackBytes == 0;
    }));
    EXPECT_LE(now.cache.directories.front().usedBytes, sizes.budget);
  }
  // Restarts these agents, with their cache and an empty memory.
  void restart(const std::vector<std::size_t>& which, const Origin& origin) {
    for (const std::size_t who : which) {
      everyone[who]->stop();
      everyone[who]->start();
    }
    connect(everyone);
    for (const std::size_t who : which) {
      streamed[who] = everyone[who]->add(*streams[who]);
      hot[who] = everyone[who]->add(origin);
    }
  }
  [[nodiscard]] bool holds(std::size_t who) {
    return everyone[who]
               ->await(everyone[who]->engine().contents().residency(hot[who]))
               .bytesResident == sizes.hot;
  }
  // True: its copy counts as one that stays for others. Agents have one shard here, which owns all
  // keys.
  [[nodiscard]] bool durable(std::size_t who) {
    const Manifest& manifest = *hot[who]->manifest;
    const auto look = [](ContentCache& cache, ContentKey key) -> Task<bool> {
      const std::shared_ptr<CachedFile> file = cache.find(key);
      co_return file != nullptr && file->durable();
    };
    return everyone[who]->await(look(*everyone[who]->engine().commons().cache,
                                     manifest.entry(filesOf(manifest).front()).key));
  }
  [[nodiscard]] std::vector<std::size_t> without() {
    std::vector<std::size_t> found;
    for (std::size_t who = 0; who < everyone.size(); ++who) {
      if (!holds(who)) found.push_back(who);
    }
    return found;
  }
  [[nodiscard]] std::size_t copies() { return everyone.size() - without().size(); }
  [[nodiscard]] CacheStatistics statistics() {
    CacheStatistics sums;
    for (Agent* const agent : everyone) {
      const CacheStatistics one = agent->await(agent->engine().statistics()).cache;
      sums.redundantCopies += one.redundantCopies;
      sums.lastCopies += one.lastCopies;
      sums.unansweredCopies += one.unansweredCopies;
    }
    return sums;
  }

  const Sizes sizes;
  std::vector<std::unique_ptr<Agent>> agents;
  std::vector<Agent*> everyone;
  std::vector<std::unique_ptr<Origin>> streams;
  std::vector<std::shared_ptr<Dataset>> streamed, hot;

 private:
  std::size_t turn_ = 0;
};

TEST(ElasticCopies, FollowTheReadersFromOneToEightAndBackToOne) {
  Origin origin;
  origin.add("model", kSmallSizes.hot);
  Readers readers(8, small, kSmallSizes);
  readers.want(origin);
  for (std::size_t who = 0; who < 8; ++who) {
    readers.readHot(who);
    EXPECT_EQ(readers.copies(), who + 1);
  }
  // Each agent that came gave to the next ones: the first is not the source of all.
  std::uint64_t sent = 0;
  for (Agent* const agent : readers.everyone) {
    const std::uint64_t one = agent->await(agent->engine().statistics()).peerBytesSent;
    EXPECT_LT(one, 7 * kSmallSizes.hot) << agent->name();
    sent += one;
  }
  EXPECT_GE(sent, 7 * kSmallSizes.hot) << "the origin was read once";

  readers.noteUses();
  EXPECT_TRUE(eventually([&] {
    readers.streamOn();
    return readers.copies() == 1;
  }));
  EXPECT_GE(readers.statistics().redundantCopies, 7u);
  // Everything else in its cache goes meanwhile.
  for (std::size_t turn = 0; turn < kParts / 2; ++turn) {
    readers.streamOn();
    ASSERT_EQ(readers.copies(), 1u);
  }
  // Their own files were the last copies, and less wanted.
  EXPECT_TRUE(eventually([&] {
    readers.streamOn();
    return readers.statistics().lastCopies > 0;
  }));
  // The last copy stays for later readers, who may have it in memory still unless they begin again.
  const std::vector<std::size_t> others = readers.without();
  ASSERT_EQ(others.size(), 7u);
  readers.restart(others, origin);
  std::uint64_t received = 0;
  for (const std::size_t who : others) {
    readers.readHot(who);
    Agent& agent = *readers.everyone[who];
    received += agent.await(agent.engine().statistics()).peerBytesReceived;
  }
  EXPECT_GE(received, kSmallSizes.hot);
}

// The budget is hard: readable files have room, and the loss of copies for that is counted.
TEST(ElasticCopies, CountALastCopyThatHadToGo) {
  const Sizes sizes;
  Origin origin;
  origin.add("model", sizes.hot);
  Origin large;
  large.add("large", sizes.budget - (sizes.hot / 2));
  Readers readers(2);
  readers.want(origin);
  readers.readHot(0);
  readers.noteUses();
  Agent& holder = *readers.everyone.front();
  const std::shared_ptr<Dataset> more = holder.add(large);
  readers.read(0, more, 0);
  EXPECT_TRUE(eventually([&] {
    return holder.await(holder.engine().contents().residency(more)).bytesResident == large.bytes();
  }));
  readers.expectStored(holder);
  EXPECT_EQ(readers.copies(), 0u);
  const CacheStatistics sums = readers.statistics();
  EXPECT_EQ(sums.lastCopies + sums.unansweredCopies, 1u);
  EXPECT_EQ(sums.redundantCopies, 0u);
  readers.readHot(1);
}

TEST(ElasticCopies, AFirstHolderDoesNotGiveToAllThatComeAtOnce) {
  Origin origin;
  origin.add("model", Sizes().hot);
  Readers readers(8);
  readers.want(origin);
  readers.readHot(0);
  for (std::size_t who = 1; who < 8; ++who) readers.everyone[who]->beginWarm(readers.hot[who]);
  for (std::size_t who = 1; who < 8; ++who)
    EXPECT_EQ(readers.everyone[who]->awaitWarm().state, WarmState::kSucceeded);
  EXPECT_EQ(readers.copies(), 8u);
  Agent& first = *readers.everyone.front();
  EXPECT_LT(first.await(first.engine().statistics()).peerBytesSent, 7 * Sizes().hot);
}

TEST(ElasticCopies, MakeRoomAndKeepACopyDespiteLostAnswers) {
  Origin origin;
  origin.add("model", Sizes().hot);
  Readers readers(4, [](EngineOptions& options) {
    small(options);
    options.transport = [](Reactor& reactor, TransportOptions about, PeerHandler& handler) {
      return std::make_unique<LossyLeave>(PeerTransport::create(reactor, std::move(about), handler),
                                          reactor);
    };
  });
  readers.want(origin);
  for (std::size_t who = 0; who < 4; ++who) readers.readHot(who);
  readers.noteUses();
  for (std::size_t turn = 0; turn < 2 * kParts; ++turn) {
    readers.streamOn();
    ASSERT_GE(readers.copies(), 1u);
  }
  EXPECT_GT(readers.statistics().unansweredCopies, 0u);
}

// The directory of the file is an agent without a copy, which begins again and knows nothing.
TEST(ElasticCopies, ARestartedDirectoryGivesNoWrongLeave) {
  Readers readers(3);
  const auto origin = originDirectedBy(readers.everyone, {readers.everyone[2]}, Sizes().hot);
  readers.want(*origin);
  readers.readHot(0);
  readers.readHot(1);
  readers.noteUses();
  readers.restart({2}, *origin);
  EXPECT_TRUE(eventually([&] {
    readers.streamOn();
    const std::size_t copies = readers.copies();
    EXPECT_GE(copies, 1u);
    return copies <= 1;
  }));
  for (std::size_t turn = 0; turn < kParts; ++turn) {
    readers.streamOn();
    ASSERT_EQ(readers.copies(), 1u);
  }
}

}  // namespace
}  // namespace hearth::testing_cluster
