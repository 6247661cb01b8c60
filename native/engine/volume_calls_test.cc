// Writable volumes on several engines: changes of all of them, in the tree of the one that leads.
#include "engine/volume_calls.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <thread>

#include "engine/testing_agent_before.h"
#include "engine/testing_cluster.h"
#include "files/testing/held_back_file_system.h"
#include "volume/testing/kept_request.h"
#include "volume/volume_control.h"

namespace hearth::testing_cluster {
namespace {

using tree::Create;
using tree::kRootInode;
using tree::OpenForWriting;

const tree::WideId kVolumeId{3}, kStoreId{4};
constexpr std::int64_t kForEver = std::int64_t{1} << 60;

tree::Place inTop(std::string name) { return {kRootInode, std::move(name)}; }
Create exclusive(std::string name) { return {.place = inTop(std::move(name)), .exclusive = true}; }

VolumeOptions volumeOptions() {
  return {.id = kVolumeId,
          .store = kStoreId,
          .name = "kv",
          .deadline = std::chrono::seconds(30),
          .limits = {}};
}

// An agent and its side of the volume.
struct Side {
  explicit Side(std::string name, std::function<void(EngineOptions&)> adjust = {})
      : agent(std::move(name), std::move(adjust)) {}
  // With this cache directory.
  Side(std::string name, const std::string& folder)
      : agent(
            std::move(name), 4ull << 30, [](EngineEvent) {}, folder) {}
  Agent agent;

  [[nodiscard]] VolumeCalls& calls() { return agent.engine().volumes(); }
  [[nodiscard]] std::shared_ptr<Volume> volume() { return calls().find(kVolumeId); }
  void set(std::vector<VolumeOptions> volumes) {
    const auto all = [](VolumeCalls& calls, std::vector<VolumeOptions> given) -> Task<bool> {
      co_await calls.set(std::move(given));
      co_return true;
    };
    agent.await(all(calls(), std::move(volumes)));
  }
  Status lead(std::uint64_t epoch, std::int64_t until = kForEver) {
    return agent.await(calls().lead({kVolumeId, epoch, until}));
  }
  // On the volume's thread.
  template <class T>
  T await(Task<T> task) {
    return runOn(*volume()->shard.reactor, std::move(task));
  }
  ChangeReply change(tree::ClientChange change) {
    return await(volume()->client.change(std::move(change)));
  }
  QueryReply query(VolumeQuery query) { return await(volume()->client.query(std::move(query))); }
  UpkeepReply upkeep(Released released = {}) {
    return await(volume()->client.upkeep(std::move(released)));
  }
  VolumeStatistics statistics() { return agent.await(calls().statistics()).at(0); }
};

struct VolumeCallsTest : testing::Test {
  Side a{"a"}, b{"b"}, c{"c"};

  VolumeCallsTest() {
    connect({&a.agent, &b.agent, &c.agent});
    for (Side* const side : {&a, &b, &c}) side->set({volumeOptions()});
  }
  void follow(std::optional<LeaderClient::Leader> leader) {
    for (Side* const side : {&a, &b, &c}) side->calls().setLeader(kVolumeId, leader);
  }
  void begin(std::uint64_t epoch = 1) {
    ASSERT_TRUE(a.lead(epoch).ok());
    follow({{"a", epoch}});
  }
};

TEST_F(VolumeCallsTest, AllAgentsSeeOneTree) {
  begin();
  const ChangeReply made = b.change(Create{.place = inTop("f"), .opens = true});
  ASSERT_EQ(made.answer.error, 0);
  EXPECT_NE(made.answer.session, tree::kNoSession);
  for (Side* const side : {&a, &b, &c}) {
    const QueryReply found = side->query(LookUpQuery{inTop("f")});
    ASSERT_EQ(found.error, 0);
    EXPECT_EQ(found.attributes->id, made.answer.inode);
    EXPECT_EQ(side->query(LookUpQuery{inTop("g")}).error, ENOENT);
  }
  // Another agent asks for the file that b writes, and hears who has it.
  const ChangeReply held = c.change(OpenForWriting{.inode = made.answer.inode});
  EXPECT_EQ(held.answer.error, EBUSY);
  EXPECT_EQ(c.await(c.volume()->client.nodeOf(held.answer.holder.agent)), "b");
  EXPECT_EQ(b.await(b.volume()->client.self()), held.answer.holder.agent);
  EXPECT_TRUE(a.statistics().leads);
  EXPECT_EQ(a.statistics().usage.inodes, 2u);
  EXPECT_FALSE(b.statistics().leads);
}

TEST_F(VolumeCallsTest, CallsWaitForALeader) {
  std::thread asks([this] { EXPECT_EQ(b.change(exclusive("f")).answer.error, 0); });
  begin();
  asks.join();
  EXPECT_EQ(c.query(LookUpQuery{inTop("f")}).error, 0);
}

// Each change is executed once, whatever terms end in the middle of it.
TEST_F(VolumeCallsTest, ALeaderThatEndsInMidOperationLosesAndRepeatsNothing) {
  begin();
  std::atomic<bool> ending{false};
  std::vector<std::thread> writers;
  std::atomic<int> made{0};
  for (Side* const side : {&a, &b, &c}) {
    writers.emplace_back([&, side] {
      for (int i = 0; !ending; ++i) {
        const std::string name = side->agent.name() + std::to_string(i);
        EXPECT_EQ(side->change(exclusive(name)).answer.error, 0) << name;
        ++made;
      }
    });
  }
  for (std::uint64_t epoch = 2; epoch < 12; ++epoch) {
    const int before = made;
    eventually([&] { return made > before + 20; });
    if (epoch % 2 == 0) EXPECT_TRUE(a.agent.await(a.calls().resign(kVolumeId)).ok());
    begin(epoch);
  }
  ending = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(a.statistics().usage.inodes, 1u + static_cast<unsigned>(made));
  EXPECT_EQ(a.lead(11).code(), ErrorCode::kConflict);
}

// A leader that is killed while it writes has lost no change that it had answered.
TEST(VolumeKill, ALeaderThatIsKilledLeavesAllThatItHasAnswered) {
  const TemporaryFolder folder;
  const std::string cache = folder.path("cache"), answered = folder.path("answered");
  AgentBefore before([&](const std::function<void()>& live) {
    Side a("a", cache);
    a.set({volumeOptions()});
    EXPECT_TRUE(a.lead(1).ok());
    a.calls().setLeader(kVolumeId, {{"a", 1}});
    std::atomic<int> made{0};
    std::thread writer([&] {
      std::ofstream names(answered);
      for (;; ++made) {
        const std::string name = "f" + std::to_string(made);
        EXPECT_EQ(a.change(exclusive(name)).answer.error, 0);
        names << name << std::endl;
      }
    });
    eventually([&] { return made > 200; });
    live();
  });
  before.run();
  before.kill();
  Side a("a", cache);
  a.set({volumeOptions()});
  EXPECT_EQ(a.lead(1).code(), ErrorCode::kConflict);
  ASSERT_TRUE(a.lead(2).ok());
  a.calls().setLeader(kVolumeId, {{"a", 2}});
  std::ifstream names(answered);
  std::uint64_t count = 0;
  for (std::string name; std::getline(names, name); ++count) {
    ASSERT_EQ(a.query(LookUpQuery{inTop(name)}).error, 0) << name;
  }
  EXPECT_GT(count, 200u);
  // One more at most: that had not been answered.
  EXPECT_LE(a.statistics().usage.inodes, 1 + count + 1);
  EXPECT_EQ(a.change(exclusive("f0")).answer.error, EEXIST);
}

TEST_F(VolumeCallsTest, NothingIsAnsweredWhenTheLeaseIsOver) {
  VolumeOptions soon = volumeOptions();
  soon.deadline = std::chrono::milliseconds(300);
  b.set({soon});
  begin();
  ASSERT_EQ(b.change(exclusive("f")).answer.error, 0);
  a.calls().extendLease({kVolumeId, 1, 1});
  eventually([&] { return !a.statistics().leads; });
  EXPECT_EQ(b.query(LookUpQuery{inTop("f")}).error, ETIMEDOUT);
  EXPECT_EQ(b.change(exclusive("g")).answer.error, ETIMEDOUT);
  // The lease of another term changes nothing.
  a.calls().extendLease({kVolumeId, 2, kForEver});
  EXPECT_EQ(b.query(LookUpQuery{inTop("f")}).error, ETIMEDOUT);
  a.calls().extendLease({kVolumeId, 1, kForEver});
  b.set({volumeOptions()});
  EXPECT_EQ(b.query(LookUpQuery{inTop("f")}).error, 0);
  EXPECT_GE(b.statistics().operations.at(0).failed, 1u);
}

TEST_F(VolumeCallsTest, TheNextStartOfAnAgentGetsTheAnswersOfItsRequests) {
  begin();
  using testing_support::KeptRequest;
  LeaderClient& client = b.volume()->client;
  auto waiting = std::make_shared<KeptRequest>(), answered = std::make_shared<KeptRequest>();
  ASSERT_EQ(b.await(client.change(exclusive("waiting"), waiting)).answer.error, 0);
  ASSERT_EQ(b.await(client.change(exclusive("answered"), answered)).answer.error, 0);
  EXPECT_EQ(b.change(exclusive("other")).answer.error, 0);

  const Shard& shard = b.volume()->shard;
  LeaderClient next(*shard.reactor, *shard.transport, b.volume()->service,
                    {kVolumeId, {9}, "b", std::chrono::seconds(30)});
  next.setLeader({{"a", 1}});
  const auto again = b.await(next.answerTo(*waiting->asked));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->answer.error, 0);
  EXPECT_TRUE(again->answer.created);
  // The start before changes nothing more, so one that never came never will.
  EXPECT_FALSE(b.await(next.answerTo({waiting->asked->incarnation, 100})).has_value());
  EXPECT_EQ(b.change(exclusive("late")).answer.refusal, tree::Refusal::kSuperseded);
  EXPECT_EQ(c.query(LookUpQuery{inTop("late")}).error, ENOENT);

  // An answer that nobody waits for is not kept.
  const AskedChange had = *answered->asked;
  waiting.reset();
  answered.reset();
  LeaderClient last(*shard.reactor, *shard.transport, b.volume()->service,
                    {kVolumeId, {10}, "b", std::chrono::seconds(30)});
  last.setLeader({{"a", 1}});
  const auto forgotten = b.await(last.answerTo(had));
  ASSERT_TRUE(forgotten.has_value());
  EXPECT_EQ(forgotten->answer.error, EIO);
  const auto close = [](LeaderClient& one, LeaderClient& other) -> Task<bool> {
    co_await one.close(ESHUTDOWN);
    co_await other.close(ESHUTDOWN);
    co_return true;
  };
  b.await(close(next, last));
}

TEST_F(VolumeCallsTest, AVolumeThatIsDeletedEndsCalls) {
  begin();
  follow(std::nullopt);
  const std::shared_ptr<Volume> volume = b.volume();
  std::thread asks([&volume] {
    const QueryReply reply = runOn(*volume->shard.reactor, volume->client.query(UsageQuery{}));
    EXPECT_EQ(reply.error, ENOENT);
  });
  EXPECT_EQ(b.agent.await(b.calls().remove(kVolumeId)).code(), ErrorCode::kInUse);
  b.set({});
  asks.join();
  a.set({});
  EXPECT_EQ(a.lead(2).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(a.agent.await(a.calls().remove(kVolumeId)).ok());
  // Another volume of that id begins empty.
  a.set({volumeOptions()});
  begin(1);
  EXPECT_EQ(a.statistics().usage.inodes, 1u);
}

TEST_F(VolumeCallsTest, LimitsOfTheVolumeHold) {
  VolumeOptions small = volumeOptions();
  small.limits.maxInodes = 3;
  a.set({small});
  begin();
  EXPECT_EQ(b.change(exclusive("f")).answer.error, 0);
  EXPECT_EQ(b.change(exclusive("g")).answer.error, 0);
  EXPECT_EQ(b.change(exclusive("h")).answer.error, ENOSPC);
  small.limits.maxInodes = 4;
  a.set({small});
  EXPECT_EQ(b.change(exclusive("h")).answer.error, 0);
}

TEST_F(VolumeCallsTest, AFileOfAnAgentThatIsGoneCanBeWritten) {
  begin();
  const ChangeReply made = c.change(Create{.place = inTop("f"), .opens = true});
  const OpenForWriting open{.inode = made.answer.inode};
  EXPECT_EQ(b.change(open).answer.error, EBUSY);
  connect({&a.agent, &b.agent});
  const ChangeReply taken = b.change(open);
  EXPECT_EQ(taken.answer.error, 0);
  EXPECT_NE(taken.answer.session, made.answer.session);
  const Create create{.place = inTop("g"), .opens = true};
  EXPECT_EQ(b.change(create).answer.error, 0);
  connect({&a.agent, &c.agent});
  EXPECT_EQ(c.change(create).answer.error, 0);
  connect({&a.agent, &b.agent, &c.agent});
  EXPECT_EQ(c.change(open).answer.error, EBUSY);
}

// One publish of one chunk.
tree::Publish publishOf(const ChangeReply& file, tree::AgentId holder) {
  tree::Publish publish{.inode = file.answer.inode, .session = file.answer.session};
  publish.content = {{file.answer.session, 1}, 5, false, {{file.answer.session, 0, 1, holder}}};
  publish.usedChunks = 1;
  publish.ends = true;
  return publish;
}

TEST_F(VolumeCallsTest, OrphansGoWhenNoAgentHasThemOpenAndGarbageWhenItsHolderSaysSo) {
  begin();
  const ChangeReply made = b.change(Create{.place = inTop("f"), .opens = true});
  const tree::AgentId holder = b.await(b.volume()->client.self());
  ASSERT_EQ(b.change(publishOf(made, holder)).answer.error, 0);
  ASSERT_NE(c.await(c.volume()->client.self()), tree::kNoAgent);
  EXPECT_TRUE(b.upkeep().orphans.empty());
  ASSERT_EQ(b.change(tree::Unlink{inTop("f")}).answer.error, 0);
  const tree::InodeId orphan = made.answer.inode;
  EXPECT_THAT(b.upkeep().orphans, testing::ElementsAre(orphan));
  EXPECT_THAT(c.upkeep({.unused = {orphan}}).orphans, testing::IsEmpty());
  // Agent b reads it still.
  EXPECT_EQ(c.query(AttributesQuery{orphan}).error, 0);
  const UpkeepReply left = b.upkeep({.unused = {orphan}});
  EXPECT_EQ(c.query(AttributesQuery{orphan}).error, ESTALE);
  ASSERT_EQ(left.garbage.size(), 1u);
  EXPECT_TRUE(left.garbage[0].mayGo);
  EXPECT_EQ(left.garbage[0].garbage.runs.at(0).session, made.answer.session);
  // Its chunks are not c's.
  EXPECT_TRUE(c.upkeep({.collected = {left.garbage[0].id}}).garbage.empty());
  EXPECT_EQ(b.upkeep().garbage.size(), 1u);
  EXPECT_TRUE(b.upkeep({.collected = {left.garbage[0].id}}).garbage.empty());
}

TEST_F(VolumeCallsTest, ReplacedChunksGoWhenNoAgentReadsThem) {
  begin();
  const ChangeReply made = b.change(Create{.place = inTop("f"), .opens = true});
  const tree::AgentId holder = b.await(b.volume()->client.self());
  ASSERT_EQ(b.change(publishOf(made, holder)).answer.error, 0);
  ASSERT_NE(c.await(c.volume()->client.self()), tree::kNoAgent);
  const ChangeReply again = b.change(OpenForWriting{.inode = made.answer.inode});
  tree::Publish second = publishOf(again, holder);
  second.base = again.answer.content;
  ASSERT_EQ(b.change(second).answer.error, 0);
  const UpkeepReply named = b.upkeep();
  ASSERT_EQ(named.garbage.size(), 1u);
  EXPECT_FALSE(named.garbage[0].mayGo);
  const tree::GarbageId id = named.garbage[0].id;
  // Agent c reads it still, and b may not collect it.
  EXPECT_TRUE(b.upkeep({.unread = {id}, .collected = {id}}).garbage.empty());
  ASSERT_EQ(c.upkeep().garbage.size(), 1u);
  EXPECT_TRUE(c.upkeep({.unread = {id}}).garbage.empty());
  const UpkeepReply unread = b.upkeep();
  ASSERT_EQ(unread.garbage.size(), 1u);
  EXPECT_TRUE(unread.garbage[0].mayGo);
  EXPECT_TRUE(b.upkeep({.collected = {id}}).garbage.empty());
}

// Sends the bytes from b, as a peer that has proved itself.
ErrorCode sendTo(Side& from, const std::string& node, std::uint16_t type,
                 std::vector<std::byte> body) {
  Shard& shard = from.volume()->shard;
  const auto result =
      runOn(*shard.reactor, shard.transport->call(node, {type, std::move(body)},
                                                  Clock::now() + std::chrono::seconds(10)));
  return result.code();
}

TEST_F(VolumeCallsTest, HostileMessagesAreRefused) {
  begin();
  const auto typeOf = [](VolumeControl type) { return static_cast<std::uint16_t>(type); };
  const std::vector<std::vector<std::byte>> bodies{
      encode(JoinMessage{kVolumeId, {1}, 1}),
      encode(ChangeMessage{kVolumeId, {1}, 1, 1, 1, exclusive("f")}),
      encode(QueryMessage{kVolumeId, 1, LookUpQuery{inTop("f")}}),
      encode(UpkeepMessage{kVolumeId, 1, {{tree::InodeId{1}}, {{1, 1}}, {{1, 2}}}})};
  for (const VolumeControl type : {VolumeControl::kJoin, VolumeControl::kChange,
                                   VolumeControl::kQuery, VolumeControl::kUpkeep}) {
    const std::size_t kind = typeOf(type) - kVolumeControlFirst;
    EXPECT_EQ(sendTo(b, "a", typeOf(type), {}), ErrorCode::kProtocolError);
    for (std::size_t size = 16; size < bodies[kind].size(); size += 3) {
      auto cut = bodies[kind];
      cut.resize(size);
      EXPECT_EQ(sendTo(b, "a", typeOf(type), cut), ErrorCode::kProtocolError) << size;
    }
    auto other = bodies[kind];
    other[0] ^= std::byte{1};
    EXPECT_EQ(sendTo(b, "a", typeOf(type), other), ErrorCode::kUnavailable);
    EXPECT_EQ(sendTo(b, "c", typeOf(type), bodies[kind]), ErrorCode::kUnavailable);
    EXPECT_EQ(sendTo(b, "a", typeOf(type), bodies[kind]), ErrorCode::kOk);
  }
  EXPECT_EQ(sendTo(b, "a", kVolumeControlLast, bodies[0]), ErrorCode::kProtocolError);
  EXPECT_EQ(b.change(exclusive("g")).answer.error, 0);
}

// Agents of the release before offer no volumes.
TEST(VolumeRelease, AnAgentWithoutVolumesIsNotAsked) {
  Side older("older", [](EngineOptions& options) {
    options.transport = [](Reactor& reactor, TransportOptions with, PeerHandler& handler) {
      with.offer.features = kWireFeatures;
      return PeerTransport::create(reactor, std::move(with), handler);
    };
  });
  Side b("b");
  connect({&older.agent, &b.agent});
  VolumeOptions soon = volumeOptions();
  soon.deadline = std::chrono::milliseconds(300);
  b.set({soon});
  b.calls().setLeader(kVolumeId, {{"older", 1}});
  EXPECT_EQ(sendTo(b, "older", kVolumeControlFirst, encode(JoinMessage{kVolumeId, {1}, 1})),
            ErrorCode::kUnsupported);
  EXPECT_EQ(b.change(exclusive("f")).answer.error, ETIMEDOUT);
}

TEST(VolumeDisk, ADiskThatFailsRefusesChangesUntilItIsMended) {
  const auto disk = std::make_shared<testing_support::DiskControl>();
  Side a("a", [disk](EngineOptions& options) {
    options.files = [disk](Reactor& reactor) {
      return std::make_unique<testing_support::HeldBackFileSystem>(reactor, disk);
    };
  });
  VolumeOptions soon = volumeOptions();
  soon.deadline = std::chrono::milliseconds(500);
  a.set({soon});
  ASSERT_TRUE(a.lead(1).ok());
  a.calls().setLeader(kVolumeId, {{"a", 1}});
  ASSERT_EQ(a.change(exclusive("f")).answer.error, 0);
  disk->broken = true;
  // The first one is executed before the log fails, and those behind it are not.
  EXPECT_EQ(a.change(exclusive("g")).answer.error, EIO);
  EXPECT_EQ(a.change(exclusive("h")).answer.error, EIO);
  EXPECT_FALSE(a.statistics().error.empty());
  disk->broken = false;
  a.set({volumeOptions()});
  EXPECT_EQ(a.change(exclusive("h")).answer.error, 0);
  EXPECT_EQ(a.change(exclusive("g")).answer.error, EEXIST);
  EXPECT_TRUE(a.statistics().error.empty());
}

}  // namespace
}  // namespace hearth::testing_cluster
