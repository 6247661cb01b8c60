#include "directory/directory_outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "directory/directory_client.h"
#include "directory/directory_service.h"
#include "transport/testing/unreachable_transport.h"

namespace hearth {
namespace {

using testing::ElementsAre;

// Agents that take messages when the test lets them.
class FakeAgents final : public testing_rails::UnreachableTransport {
 public:
  explicit FakeAgents(Reactor& reactor) : reactor_(reactor), opened_(reactor) { open(); }

  struct Message {
    std::string node;
    DirectoryMessage type;
    std::vector<DirectoryUpdate> updates;
  };
  std::vector<Message> messages;  // that came, whether they were answered or not
  std::set<std::string> silent;   // who does not answer
  bool old = false;               // they know no message with several updates
  std::size_t pending = 0;

  void hold() { opened_.reset(); }
  void open() { opened_.set(); }

  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts) override {
    Message message{node, static_cast<DirectoryMessage>(request.type), {}};
    if (message.type == DirectoryMessage::kUpdates) {
      message.updates = *decodeDirectoryUpdates(request.body);
    } else {
      message.updates.push_back({message.type, *decodeDirectoryRequest(request.body)});
    }
    messages.push_back(message);
    ++pending;
    co_await opened_.wait();
    co_await reactor_.sleep(Clock::duration::zero());
    --pending;
    if (silent.contains(node)) co_return Error{ErrorCode::kDeadlineExceeded, "silent"};
    if (old && message.type == DirectoryMessage::kUpdates)
      co_return Error{ErrorCode::kProtocolError, "a directory request of the wrong shape"};
    ControlMessage answer{request.type, {}};
    if (message.type == DirectoryMessage::kLocate) answer.body = encode(LocateAnswer{});
    co_return answer;
  }

 private:
  Reactor& reactor_;
  Event opened_;
};

ContentKey keyOf(std::uint32_t number) {
  ContentKey key;
  std::memcpy(key.bytes.data(), &number, sizeof number);
  return key;
}

struct DirectoryOutboxTest : testing::Test, LocalChunks {
  AgentReport report(const ContentKey&) override { return {.fetching = fetching}; }
  std::optional<ChunkMask> held(const ContentKey&, std::uint32_t) override { return holding; }
  void beginRelease(const ContentKey&, const std::string&, std::uint64_t) override {}
  void noteUse(const ContentKey&, std::int64_t) override {}
  void endRelease(const ContentKey&, std::uint64_t) override {}

  static DirectoryUpdate update(std::uint32_t key, DirectoryMessage type = DirectoryMessage::kHave,
                                ChunkMask chunks = 1) {
    return {type, {.key = keyOf(key), .size = kChunkBytes, .chunks = chunks}};
  }
  static Task<bool> turns(Reactor& reactor, int count) {
    for (int i = 0; i < count; ++i) co_await reactor.sleep(Clock::duration::zero());
    co_return true;
  }
  void settle() { reactor->runUntilComplete(turns(*reactor, 50)); }
  // The reports to an agent, in order, as "2:have 2:dropped".
  std::string reportedTo(const std::string& node) const {
    std::string all;
    for (const auto& message : agents.messages) {
      if (message.node != node) continue;
      for (const DirectoryUpdate& one : message.updates) {
        std::uint32_t key = 0;
        std::memcpy(&key, one.request.key.bytes.data(), sizeof key);
        const char* const type = one.type == DirectoryMessage::kHave     ? ":have "
                                 : one.type == DirectoryMessage::kGiveUp ? ":giveUp "
                                 : one.type == DirectoryMessage::kLocate ? ":locate "
                                                                         : ":dropped ";
        all += std::to_string(key) + type;
      }
    }
    return all;
  }
  static Task<bool> closed(Gate& gate) {
    co_await gate.close();
    co_return true;
  }
  ~DirectoryOutboxTest() override {
    agents.open();
    reactor->runUntilComplete(closed(gate));
  }

  std::optional<ChunkMask> holding = 1;
  std::vector<std::uint32_t> fetching;
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  FakeAgents agents{*reactor};
  Gate gate{*reactor};
  std::string self = "self";
  std::shared_ptr<const ClusterView> view = std::make_shared<ClusterView>(
      "self",
      std::vector<ClusterMember>{{{"a", "1", {}}, "", "", true}, {{"b", "1", {}}, "", "", true}});
  DirectoryCounters counters;
  DirectoryPorts ports{self, *reactor, gate, view, agents, *this, counters};
  DirectoryService service{ports};
  DirectoryOutbox outbox{ports, service};
};

TEST_F(DirectoryOutboxTest, WhatComesUpDuringACallGoesTogetherWithTheNext) {
  agents.hold();
  for (std::uint32_t i = 0; i < 1000; ++i) outbox.report({"a"}, update(i));
  settle();
  ASSERT_EQ(agents.messages.size(), 1u) << "one call at a time";
  EXPECT_EQ(agents.messages.front().type, DirectoryMessage::kHave);
  agents.open();
  settle();
  ASSERT_EQ(agents.messages.size(), 2u);
  ASSERT_EQ(agents.messages.back().updates.size(), 999u);
  for (std::uint32_t i = 1; i < 1000; ++i)
    EXPECT_EQ(agents.messages.back().updates[i - 1], update(i));
}

TEST_F(DirectoryOutboxTest, OneMessageHasAtMostSoMany) {
  agents.hold();
  for (std::uint32_t i = 0; i < 1 + 2 * kMaxUpdates + 1; ++i) outbox.report({"a"}, update(i));
  agents.open();
  settle();
  std::vector<std::size_t> sizes;
  for (const auto& message : agents.messages) sizes.push_back(message.updates.size());
  EXPECT_THAT(sizes, ElementsAre(1, kMaxUpdates, kMaxUpdates, 1));
}

TEST_F(DirectoryOutboxTest, AgentsDoNotWaitForOneAnother) {
  agents.hold();
  for (const char* const node : {"a", "b", "a", "b"}) outbox.report({node}, update(1));
  settle();
  EXPECT_EQ(agents.pending, 2u);
}

TEST_F(DirectoryOutboxTest, ReleasesThatKnowNoSeveralGetOneByOneInOrder) {
  agents.old = true;
  agents.hold();
  outbox.report({"a"}, update(1));
  outbox.report({"a"}, update(2));
  outbox.report({"a"}, update(2, DirectoryMessage::kGiveUp));
  outbox.report({"a"}, update(2, DirectoryMessage::kDropped));
  agents.open();
  settle();
  EXPECT_EQ(agents.messages.size(), 5u);
  std::erase_if(agents.messages,
                [](const auto& message) { return message.type == DirectoryMessage::kUpdates; });
  EXPECT_EQ(reportedTo("a"), "1:have 2:have 2:giveUp 2:dropped ");
}

TEST_F(DirectoryOutboxTest, TheStandInHearsWhatIsTrueThen) {
  agents.silent = {"a"};
  agents.hold();
  outbox.report({"a", "b"}, update(1));
  outbox.report({"a", "b"}, update(2, DirectoryMessage::kHave, 0b1));
  outbox.report({"a", "b"}, update(3, DirectoryMessage::kGiveUp));
  holding = 0b11;
  agents.open();
  settle();
  EXPECT_EQ(reportedTo("b"), "1:have 2:have 3:giveUp ");
  for (const auto& message : agents.messages) {
    if (message.node != "b") continue;
    for (const DirectoryUpdate& one : message.updates)
      EXPECT_EQ(one.request.chunks, one.type == DirectoryMessage::kHave ? 0b11 : 0b1);
  }
  holding = std::nullopt;  // dropped while the first was silent: that has been reported by itself
  agents.messages.clear();
  outbox.report({"a", "b"}, update(1));
  settle();
  EXPECT_EQ(reportedTo("b"), "");
}

// The cluster changed while the first agent was silent: the stand-in is the directory now, and has
// heard of the later changes.
TEST_F(DirectoryOutboxTest, TheStandInHearsNothingThatIsNoLongerTrue) {
  agents.silent = {"a"};
  agents.hold();
  outbox.report({"a", "b"}, update(1, DirectoryMessage::kDropped));
  outbox.report({"a", "b"}, update(2, DirectoryMessage::kGiveUp));
  outbox.report({"a", "b"}, update(3, DirectoryMessage::kGiveUp, 0b11));
  outbox.report({"b"}, update(1, DirectoryMessage::kHave));
  fetching = {0};
  agents.open();
  settle();
  EXPECT_EQ(reportedTo("b"), "1:have 3:giveUp ");
  EXPECT_EQ(agents.messages.back().updates.front().request.chunks, 0b10);
}

TEST_F(DirectoryOutboxTest, WhenNoAgentAnswersUpdatesAreForgotten) {
  agents.silent = {"a", "b"};
  outbox.report({"a", "b"}, update(1));
  settle();
  agents.silent.clear();
  outbox.report({"a", "b"}, update(2));
  settle();
  EXPECT_EQ(reportedTo("a"), "1:have 2:have ");
  EXPECT_EQ(reportedTo("b"), "1:have ");
}

TEST_F(DirectoryOutboxTest, TheOldestAreLeftOutWhenTooManyWait) {
  agents.hold();
  for (std::uint32_t i = 0; i < 1 + DirectoryOutbox::kMaxWaiting + 3; ++i)
    outbox.report({"a"}, update(i));
  agents.open();
  for (int i = 0; i < 10; ++i) settle();
  std::size_t reported = 0;
  for (const auto& message : agents.messages) reported += message.updates.size();
  EXPECT_EQ(reported, 1 + DirectoryOutbox::kMaxWaiting);
  EXPECT_EQ(agents.messages.at(1).updates.front(), update(4));
}

// An agent of the previous release refused an update: the outbox puts it back beside newer ones.
TEST_F(DirectoryOutboxTest, WhatIsPutBackIsBoundedToo) {
  agents.old = true;
  agents.hold();
  std::uint32_t number = 0;
  const auto reportMany = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) outbox.report({"a"}, update(number++));
  };
  const auto answerOne = [&] {
    agents.open();
    agents.hold();
    settle();
  };
  reportMany(1 + kMaxUpdates);
  answerOne();  // the first alone; the others go together
  reportMany(DirectoryOutbox::kMaxWaiting);
  answerOne();  // refused
  ASSERT_EQ(agents.messages.size(), 3u);
  reportMany(2 * kMaxUpdates);
  agents.messages.clear();
  agents.open();
  reactor->runUntilComplete(turns(*reactor, 3 * static_cast<int>(number)));
  EXPECT_EQ(agents.pending, 0u);
  EXPECT_LE(agents.messages.size(), DirectoryOutbox::kMaxWaiting);
  EXPECT_EQ(agents.messages.back().updates.front(), update(number - 1));
}

// A grant that is followed by an older update that its chunks were given up would be withdrawn.
TEST_F(DirectoryOutboxTest, ALookUpOfAKeyComesBehindItsUpdates) {
  DirectoryClient client(ports, service);
  std::uint32_t number = 0;  // of a key whose directory is "a"
  while (view->directoriesOf(keyOf(number)).front() != "a") ++number;
  std::uint32_t other = number + 1;
  while (view->directoriesOf(keyOf(other)).front() != "a") ++other;
  agents.hold();
  client.have(keyOf(other), kChunkBytes, 0, 1);
  client.giveUp(keyOf(number), kChunkBytes, 0, 1);
  const auto locate = [&](std::uint32_t key) -> Task<void> {
    Task<LocateAnswer> locating =
        client.locate(keyOf(key), kChunkBytes, 0, 1, Intent::kFetch, FailureReport());
    co_await locating;
  };
  gate.spawn(locate(number));
  std::uint32_t third = other + 1;
  while (view->directoriesOf(keyOf(third)).front() != "a") ++third;
  gate.spawn(locate(third));  // of which nothing is to be reported: at once
  settle();
  const auto text = [](std::uint32_t key, const char* type) { return std::to_string(key) + type; };
  EXPECT_EQ(reportedTo("a"), text(other, ":have ") + text(third, ":locate "));
  agents.open();
  settle();
  EXPECT_EQ(reportedTo("a"), text(other, ":have ") + text(third, ":locate ") +
                                 text(number, ":giveUp ") + text(number, ":locate "));
}

// Else whoever asks would wait twice for an agent that has been stopped.
TEST_F(DirectoryOutboxTest, WhoDidNotAnswerAnUpdateIsNotAsked) {
  DirectoryClient client(ports, service);
  std::uint32_t number = 0;
  while (view->directoriesOf(keyOf(number)) != std::vector<std::string>{"a", "b", "self"}) ++number;
  agents.silent = {"a"};
  agents.hold();
  client.have(keyOf(number), kChunkBytes, 0, 1);
  const auto locate = [&]() -> Task<void> {
    Task<LocateAnswer> locating =
        client.locate(keyOf(number), kChunkBytes, 0, 1, Intent::kFetch, FailureReport());
    co_await locating;
  };
  gate.spawn(locate());
  agents.open();
  settle();
  const std::string name = std::to_string(number);
  EXPECT_EQ(reportedTo("a"), name + ":have ");
  EXPECT_EQ(reportedTo("b"), name + ":have " + name + ":locate ");
}

TEST_F(DirectoryOutboxTest, ClosingWaitsForOneCallAndLeavesTheRestUnsent) {
  agents.hold();
  for (std::uint32_t i = 0; i < 2 * kMaxUpdates; ++i) outbox.report({"a", "b"}, update(i));
  std::size_t answered = 0;
  const auto wait = [&]() -> Task<void> {
    const bool delivered = co_await outbox.delivered("a", keyOf(kMaxUpdates));
    EXPECT_TRUE(delivered);  // nothing is known against the agent
    ++answered;
  };
  Gate waiting(*reactor);
  waiting.spawn(wait());
  agents.silent = {"a", "b"};
  std::size_t ended = 0;
  const auto close = [&]() -> Task<void> {
    co_await gate.close();
    ++ended;
  };
  waiting.spawn(close());
  settle();
  EXPECT_EQ(ended, 0u);
  agents.open();
  reactor->runUntilComplete(closed(waiting));
  EXPECT_EQ(ended, 1u);
  EXPECT_EQ(answered, 1u);
  EXPECT_EQ(agents.messages.size(), 1u);
}

TEST_F(DirectoryOutboxTest, NoCallerWaitsForUpdatesThatAreNotDelivered) {
  reactor->runUntilComplete(closed(gate));
  outbox.report({"a"}, update(1));
  const auto delivered = [&]() -> Task<bool> {
    co_return co_await outbox.delivered("a", keyOf(1));
  };
  EXPECT_TRUE(reactor->runUntilComplete(delivered()));
  EXPECT_TRUE(agents.messages.empty());
}

}  // namespace
}  // namespace hearth
