// Mounts that the holder makes and keeps, and to whom it gives them.
#include "holder/held_mounts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <fstream>

#include "holder/testing/holder_fixture.h"

namespace hearth {
namespace {

class HeldMountsTest : public holder_testing::HolderTest {};

TEST_F(HeldMountsTest, MountsOnceAndGivesTheSameMountAgain) {
  const auto client = connect("a");
  const HolderMountRequest request{.target = mnt(), .source = "llama", .blob = "digest"};
  const auto first = client->mount(request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->record.epoch, 1U);
  EXPECT_TRUE(mounted(mnt()));
  const auto second = client->mount(request);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->record.minor, first->record.minor);
  std::ifstream knob("/sys/class/bdi/0:" + std::to_string(first->record.minor) + "/read_ahead_kb");
  int readAhead = 0;
  knob >> readAhead;
  EXPECT_EQ(readAhead, 4096);
  EXPECT_EQ(client->mount({.target = mnt(), .source = "other"}).code(), ErrorCode::kInUse);
  EXPECT_TRUE(client->unmount(mnt(), false).ok());
  EXPECT_FALSE(mounted(mnt()));
  EXPECT_EQ(client->unmount(mnt(), false).code(), ErrorCode::kNotFound);
}

TEST_F(HeldMountsTest, NextAgentGetsMountsStateAndAHigherEpoch) {
  auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama", .blob = "digest"}).ok());
  ASSERT_TRUE(client->saveState(mnt(), "negotiated").ok());
  const auto rival = HolderClient::connect(socketPath());
  EXPECT_EQ((*rival)->attach("a").code(), ErrorCode::kInUse);
  client.reset();
  const auto mounts = (*rival)->attach("a");
  ASSERT_TRUE(mounts.ok()) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 1U);
  EXPECT_EQ(mounts->front().record.epoch, 2U);
  EXPECT_EQ(mounts->front().record.blob, "digest");
  EXPECT_EQ(mounts->front().record.state, "negotiated");
  EXPECT_TRUE(mounts->front().device);
  EXPECT_TRUE(mounts->front().shared);
  const auto other = connect("b");
  EXPECT_EQ(other->saveState(mnt(), "x").code(), ErrorCode::kNotFound);
  const auto list = other->list();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1U);
  EXPECT_TRUE(list->front().attached);
}

TEST_F(HeldMountsTest, RefusesMountPointsThatCannotBeUsed) {
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = "relative"}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->mount({.target = mnt() + "/absent"}).code(), ErrorCode::kNotFound);
  const std::string file = (root_ / "file").string();
  std::ofstream(file) << "x";
  EXPECT_EQ(client->mount({.target = file}).code(), ErrorCode::kInvalidArgument);
  ASSERT_EQ(::mount("tmpfs", mnt().c_str(), "tmpfs", 0, nullptr), 0);
  const auto busy = client->mount({.target = mnt(), .source = "x"});
  EXPECT_EQ(busy.code(), ErrorCode::kInUse);
  EXPECT_NE(busy.error().message.find("tmpfs"), std::string::npos);
  EXPECT_EQ(umount2(mnt().c_str(), MNT_DETACH), 0);
  const auto other = HolderClient::connect(socketPath());
  EXPECT_EQ((*other)->mount({.target = mnt()}).code(), ErrorCode::kInvalidArgument);
}

TEST_F(HeldMountsTest, BusyMountsGoOnlyByForce) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "x"}).ok());
  const OwnedFd user(open(mnt().c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(client->unmount(mnt(), false).code(), ErrorCode::kInUse);
  EXPECT_TRUE(client->unmount(mnt(), true).ok());
  EXPECT_FALSE(mounted(mnt()));
}

TEST_F(HeldMountsTest, ReplacesAMountWhoseHolderIsGone) {
  {
    auto lost = mountFuse(calls_, mnt(), {.source = "stale"});
    ASSERT_TRUE(lost.ok()) << lost.error().message;
  }
  ASSERT_TRUE(mounted(mnt()));
  const auto client = connect("a");
  // The kernel ends its connection a moment after the descriptor has gone.
  EXPECT_TRUE(eventually([&] { return client->mount({.target = mnt(), .source = "fresh"}).ok(); }));
}

TEST_F(HeldMountsTest, KeepsOffMountsThatAnotherHolderServes) {
  const auto other = mountFuse(calls_, mnt(), {.source = "theirs"});  // alive, and answers nothing
  ASSERT_TRUE(other.ok());
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = mnt(), .source = "ours"}).code(), ErrorCode::kInUse);
  EXPECT_TRUE(mounted(mnt()));
}

TEST_F(HeldMountsTest, MountsTakeFlagsAndOnlyKnownOptions) {
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = mnt(), .source = "x", .options = {"fd=7"}}).code(),
            ErrorCode::kUnsupported);
  EXPECT_FALSE(mounted(mnt()));
  const auto held = client->mount({.target = mnt(), .source = "x", .writable = true});
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ(held->record.flags, kHolderWritable);
  EXPECT_EQ(client->mount({.target = mnt(), .source = "x"}).code(), ErrorCode::kInUse)
      << "another mount: read-only";
}

TEST_F(HeldMountsTest, AnAgentGivesItsMountToTheNextHolder) {
  auto client = connect("a");
  auto held = client->mount({.target = mnt(), .source = "llama", .blob = "digest"});
  ASSERT_TRUE(held.ok()) << held.error().message;
  held->record.state = "negotiated";
  held->record.epoch = 7;
  endServer();  // while the agent serves on
  EXPECT_FALSE(client->alive());
  EXPECT_TRUE(mounted(mnt())) << "only the agent has its descriptor";
  startServer();
  client = connect();
  ASSERT_TRUE(client->reattach("a").ok());
  ASSERT_TRUE(client->enroll(*held).ok());
  EXPECT_TRUE(client->enroll(*held).ok()) << "once more changes nothing";
  HeldMount elsewhere{held->record, OwnedFd(dup(held->device.get())),
                      OwnedFd(dup(held->shared.get()))};
  elsewhere.record.target = root_.string();
  EXPECT_EQ(client->enroll(elsewhere).code(), ErrorCode::kNotFound);
  HeldMount nonsense{held->record, OwnedFd(dup(held->shared.get())),
                     OwnedFd(dup(held->shared.get()))};
  EXPECT_EQ(client->enroll(nonsense).code(), ErrorCode::kInvalidArgument);
  held = Error{ErrorCode::kCancelled, "the agent ends"};
  client = connect();
  for (auto list = client->list(); list.ok() && !list->empty() && list->front().attached;) {
    list = client->list();
  }
  const auto next = client->attach("a");
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_EQ(next->size(), 1U);
  EXPECT_EQ(next->front().record.epoch, 8U);
  EXPECT_EQ(next->front().record.state, "negotiated");
  EXPECT_EQ(next->front().record.blob, "digest");
  EXPECT_TRUE(mounted(mnt()));
}

// Else the next agent, which maps them, would end when another process shrinks them.
TEST_F(HeldMountsTest, OpenCountsThatCanShrinkAreNotKept) {
  auto client = connect("a");
  auto held = client->mount({.target = mnt(), .source = "x"});
  ASSERT_TRUE(held.ok()) << held.error().message;
  endServer();  // while the agent serves on
  startServer();
  client = connect();
  ASSERT_TRUE(client->reattach("a").ok());
  HeldMount loose{held->record, OwnedFd(dup(held->device.get())),
                  OwnedFd(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING))};
  ASSERT_EQ(ftruncate(loose.shared.get(), static_cast<off_t>(kHolderSharedBytes)), 0);
  EXPECT_EQ(client->enroll(loose).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client->enroll(*held).ok());
}

TEST_F(HeldMountsTest, OpensBackingFilesOnlyOnMountsOfTheAsker) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "x"}).ok());
  const OwnedFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto other = connect("b");
  EXPECT_EQ(other->openBacking(mnt(), file).code(), ErrorCode::kNotFound);
  // FUSE_INIT has not been answered: the kernel refuses, and says so through the holder.
  const auto early = client->openBacking(mnt(), file);
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.error().message.find("passthrough of a file on"), std::string::npos);
  EXPECT_TRUE(client->closeBacking(mnt(), 1).ok());
}

}  // namespace
}  // namespace hearth
