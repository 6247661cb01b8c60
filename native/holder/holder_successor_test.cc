// A holder takes the place of another one: whatever fails on the way, one of them has the mounts.
#include "holder/holder_successor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "holder/testing/holder_fixture.h"
#include "holder/testing/relay.h"

namespace hearth {
namespace {

class HolderSuccessorTest : public holder_testing::HolderTest {
 protected:
  // A holder that takes over from server_, with `pass` in between.
  Result<std::unique_ptr<HolderServer>> succeed(holder_testing::Relay::Pass pass) {
    // Its own path, but the lock of the one before.
    std::error_code ignored;
    std::filesystem::remove_all(relayPath(), ignored);
    std::filesystem::create_symlink(socketPath() + ".lock", relayPath() + ".lock", ignored);
    const holder_testing::Relay relay(relayPath(), socketPath(), std::move(pass));
    return HolderServer::create({.socketPath = relayPath(), .takeOver = true});
  }
  // After succeed(): whoever did not get the mounts has ended, and the other one is server_.
  void keepOwner(Result<std::unique_ptr<HolderServer>> next) {
    if (!next) return;  // else the one before serves on, on thread_
    thread_.join();
    server_ = std::move(*next);
    thread_ = std::thread([this] { server_->run(); });
  }
  // The agent "a" gets the one mount from the present holder, alive.
  void expectMountAlive() {
    EXPECT_TRUE(mounted(mnt()));
    auto agent = HolderClient::connect(socketPath());
    if (!agent) agent = HolderClient::connect(relayPath());
    ASSERT_TRUE(agent.ok()) << agent.error().message;
    const auto mounts = (*agent)->attach("a");
    ASSERT_TRUE(mounts.ok()) << mounts.error().message;
    ASSERT_EQ(mounts->size(), 1U);
    pollfd device{mounts->front().device.get(), POLLIN, 0};
    EXPECT_GE(poll(&device, 1, 0), 0);
    EXPECT_EQ(device.revents & POLLERR, 0) << "the connection has ended";
    (*agent)->end();
  }
  // Until the holder has seen that the agent is gone.
  void mountWithoutAgent() {
    auto client = connect("a");
    ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama"}).ok());
    client = connect();
    for (auto list = client->list(); list.ok() && !list->empty() && list->front().attached;) {
      list = client->list();
    }
  }
  std::string relayPath() const { return (root_ / "r").string(); }
};

TEST_F(HolderSuccessorTest, ASuccessorGetsEverything) {
  auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama", .blob = "digest"}).ok());
  ASSERT_TRUE(client->saveState(mnt(), "negotiated").ok());
  const OwnedFd arena = memory(4096);
  ASSERT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 2}, arena).ok());
  auto next = HolderServer::create({.socketPath = socketPath(), .takeOver = true});
  ASSERT_TRUE(next.ok()) << next.error().message;
  thread_.join();  // the one before ends by itself
  server_ = std::move(*next);
  thread_ = std::thread([this] { server_->run(); });
  EXPECT_TRUE(mounted(mnt()));
  client = connect();
  const auto mounts = client->attach("a");
  ASSERT_TRUE(mounts.ok()) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 1U);
  EXPECT_EQ(mounts->front().record.epoch, 2U);
  EXPECT_EQ(mounts->front().record.state, "negotiated");
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->record.generation, 2U);
}

// A successor reports nothing that it has not seen itself.
TEST_F(HolderSuccessorTest, ASuccessorKnowsWhoseAgentsHaveEnded) {
  const auto takeOver = [this] {
    auto next = HolderServer::create({.socketPath = socketPath(), .takeOver = true});
    ASSERT_TRUE(next.ok()) << next.error().message;
    thread_.join();
    server_ = std::move(*next);
    thread_ = std::thread([this] { server_->run(); });
  };
  auto client = connect("a");
  const OwnedFd arena = memory(4096);
  ASSERT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 2}, arena).ok());
  takeOver();
  client = connect();
  ASSERT_TRUE(client->reattach("a").ok());
  EXPECT_TRUE(client->takeMemory("arena")->record.usersGone) << "its agent has come";
  takeOver();
  client = connect();
  ASSERT_TRUE(client->attach("a").ok());
  EXPECT_FALSE(client->takeMemory("arena")->record.usersGone) << "this is another one";
  ASSERT_TRUE(client->dropMemory("arena").ok());
  ASSERT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 1}, arena).ok());
  EXPECT_TRUE(client->takeMemory("arena")->record.usersGone) << "which no other has had";
}

TEST_F(HolderSuccessorTest, ASuccessorThatDoesNotFinishChangesNothing) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama"}).ok());
  {
    const auto successor = HolderClient::connect(socketPath());
    const auto all = (*successor)->handOver();
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(all->mounts.size(), 1U);
  }
  EXPECT_TRUE(client->saveState(mnt(), "still here").ok());
}

// Else what one client says by mistake would cost all agents their mounts.
TEST_F(HolderSuccessorTest, WhoHasTakenNothingOverEndsNothing) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama"}).ok());
  EXPECT_EQ(connect()->finishHandOver().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client->saveState(mnt(), "still here").ok());
}

// An agent that asks for a hand-over is cut off with it, and its owner is free again.
TEST_F(HolderSuccessorTest, AnAgentThatTakesOverInVainIsNoAgentAnyMore) {
  endServer();
  startServer({.handOverTimeout = std::chrono::milliseconds(20)});
  const auto client = connect("a");
  ASSERT_TRUE(client->handOver().ok());
  client->waitForEnd();
  EXPECT_TRUE(connect()->attach("a").ok());
}

TEST_F(HolderSuccessorTest, WhereverItIsCutOffOneOfTheTwoHasTheMounts) {
  mountWithoutAgent();
  bool whole = false;
  for (int cut = 0; !whole && !HasFatalFailure(); ++cut) {
    int passed = 0;
    std::string last;
    whole = true;
    keepOwner(succeed([&](const HolderRequest& request, bool answered) {
      last = (answered ? "the answer to a request of kind " : "a request of kind ") +
             std::to_string(static_cast<int>(request.kind));
      whole = whole && passed++ != cut;
      return whole;
    }));
    SCOPED_TRACE(whole ? "not cut off" : "cut off before " + last);
    expectMountAlive();
  }
  EXPECT_TRUE(whole);
}

// Another holder that starts at that moment, and a path that cannot be listened at.
TEST_F(HolderSuccessorTest, NothingThatHappensAfterTheLastAnswerCostsTheMounts) {
  mountWithoutAgent();
  OwnedFd rival(open((socketPath() + ".lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(rival);
  keepOwner(succeed([&](const HolderRequest& request, bool answered) {
    if (request.kind != HolderRequestKind::kHandOverDone || !answered) return true;
    EXPECT_NE(flock(rival.get(), LOCK_EX | LOCK_NB), 0) << "no process has the lock";
    std::filesystem::remove(relayPath());
    std::filesystem::create_directory(relayPath());
    return true;
  }));
  rival.reset();
  expectMountAlive();
}

// Else it would detach what the successor has already.
TEST_F(HolderSuccessorTest, AHolderThatIsToEndLetsItsSuccessorFinish) {
  mountWithoutAgent();
  keepOwner(succeed([&](const HolderRequest& request, bool answered) {
    const bool first = request.kind == HolderRequestKind::kHandOver && request.position == 0;
    if (first && answered) server_->stop();
    return true;
  }));
  expectMountAlive();
}

}  // namespace
}  // namespace hearth
