// A holder takes the place of another one: whatever fails on the way, one of them has the mounts.
#include "holder/holder_successor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "holder/testing/holder_fixture.h"

namespace hearth {
namespace {

class HolderSuccessorTest : public holder_testing::HolderTest {};

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
  startServer({.handOverPatience = std::chrono::milliseconds(20)});
  const auto client = connect("a");
  ASSERT_TRUE(client->handOver().ok());
  client->waitForEnd();
  EXPECT_TRUE(connect()->attach("a").ok());
}

}  // namespace
}  // namespace hearth
