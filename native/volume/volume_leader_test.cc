#include "volume/volume_leader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "files/crash_file_system.h"
#include "files/testing/held_back_file_system.h"

namespace hearth {
namespace {

using tree::Answer;
using tree::ClientId;
using tree::Refusal;

constexpr tree::NamespaceOptions kVolume{.store = {1}, .volume = {2}};

tree::Place inRootFolder(std::string name) { return {tree::kRootInode, std::move(name)}; }

class VolumeLeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run(files.makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  VolumeLeader::Options options() {
    return {.log = {.folder = "/v", .tree = kVolume},
            .epoch = ++epoch,
            .leads = [this] { return leads; },
            .now = [this] { return ++now; }};
  }
  std::unique_ptr<VolumeLeader> begin(FileSystem& from) {
    auto leader = run(VolumeLeader::begin(*reactor, from, options()));
    EXPECT_TRUE(leader.ok()) << leader.error().message;
    return std::move(*leader);
  }
  ClientId join(VolumeLeader& leader) { return run(leader.decide(tree::Join{"a", {1}}))->holder; }
  tree::Request create(const ClientId& client, const std::string& name) {
    return {.id = {client, ++number},
            .epoch = epoch,
            .change = tree::Create{.place = inRootFolder(name), .exclusive = true}};
  }
  static tree::Found lookUp(const tree::Namespace& tree) {
    return tree.lookUp(tree::kRootInode, "f");
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::uint64_t epoch = 0, number = 0;
  std::int64_t now = 0;
  bool leads = true;
};

TEST_F(VolumeLeaderTest, WhatItAnswersIsThereAfterACrash) {
  auto leader = begin(files);
  const ClientId client = join(*leader);
  tree::Request request = create(client, "f");
  const auto made = run(leader->change(request));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(run(leader->query(lookUp))->inode, made->answer.inode);
  EXPECT_EQ(made->attributes->id, made->answer.inode);
  const auto disk = files.crashCopy(1);
  leader = begin(*disk);
  EXPECT_EQ(run(leader->query(lookUp))->inode, made->answer.inode);
  // The client did not hear the answer.
  EXPECT_EQ(run(leader->change(request))->answer.refusal, Refusal::kNotLeading);
  request.epoch = epoch;
  const auto again = run(leader->change(request));
  EXPECT_EQ(again->answer, made->answer);
}

TEST_F(VolumeLeaderTest, AnswersNothingWithoutItsLease) {
  auto leader = begin(files);
  const ClientId client = join(*leader);
  leads = false;
  EXPECT_EQ(run(leader->change(create(client, "f"))).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(run(leader->query(lookUp)).code(), ErrorCode::kUnavailable);
  leads = true;
  EXPECT_EQ(run(leader->query(lookUp))->error, ENOENT);
}

TEST_F(VolumeLeaderTest, AChangeThatIsNotOnTheDiskIsAnsweredWhenItIs) {
  auto leader = begin(files);
  const ClientId client = join(*leader);
  const tree::Request request = create(client, "f");
  files.inject(FileCall::kSync, 1, ENOSPC, 2);
  EXPECT_EQ(run(leader->change(request)).code(), ErrorCode::kOutOfSpace);
  // Nobody sees it before.
  EXPECT_EQ(run(leader->query(lookUp)).code(), ErrorCode::kOutOfSpace);
  const auto made = run(leader->change(request));
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->answer.error, 0);
  EXPECT_EQ(run(leader->query(lookUp))->inode, made->answer.inode);
}

TEST_F(VolumeLeaderTest, WritesCheckpointsByItself) {
  auto asked = options();
  asked.checkpointFromBytes = 5'000;
  auto leader = std::move(*run(VolumeLeader::begin(*reactor, files, asked)));
  const ClientId client = join(*leader);
  std::uint64_t made = 0;
  while (made < 100 || leader->log().checkpointedRecord() < 60) {
    if (made == 20) files.inject(FileCall::kName, 1, ENOSPC);
    tree::Request request = create(client, "f" + std::to_string(made++));
    request.doneBelow = request.id.number;
    const auto reply = run(leader->change(request));
    ASSERT_TRUE(reply.ok());
    ASSERT_EQ(reply->answer.error, 0);
  }
  EXPECT_TRUE(leader->checkpointError().ok());
  EXPECT_TRUE(run(leader->close()).ok());
  EXPECT_EQ(run(leader->change(create(client, "f"))).code(), ErrorCode::kUnavailable);
  leader = begin(files);
  EXPECT_EQ(*run(leader->query([](const tree::Namespace& tree) { return tree.usage().inodes; })),
            1 + made);
}

// A folder of a test that is removed with it.
struct DiskFolder {
  std::string path = testing::TempDir() + "hearth-volume-" + std::to_string(getpid());
  DiskFolder() { std::filesystem::create_directories(path + "/objects/v"); }
  ~DiskFolder() { std::filesystem::remove_all(path); }
};

TEST_F(VolumeLeaderTest, ChangesOfManyClientsShareTheirWrites) {
  const DiskFolder folder;
  const auto disk = std::make_shared<testing_support::DiskControl>();
  testing_support::HeldBackFileSystem held(*reactor, disk);
  auto asked = options();
  asked.log.folder = folder.path + "/objects/v";
  auto leader = std::move(*run(VolumeLeader::begin(*reactor, held, asked)));
  const ClientId client = join(*leader);
  const std::size_t before = disk->offsets().size();
  disk->stopped = true;
  std::vector<tree::Request> requests;
  for (int i = 0; i < 200; ++i) requests.push_back(create(client, "f" + std::to_string(i)));
  const auto all = [](Reactor& on, VolumeLeader& to, std::vector<tree::Request>& asks,
                      testing_support::DiskControl& control) -> Task<std::size_t> {
    std::size_t done = 0;
    Gate gate(on);
    const auto one = [](VolumeLeader& to, tree::Request ask, std::size_t& count) -> Task<void> {
      const auto answer = co_await to.change(std::move(ask));
      if (answer.ok() && answer->answer.error == 0) ++count;
    };
    for (const tree::Request& ask : asks) gate.spawn(one(to, ask, done));
    control.stopped = false;
    co_await gate.close();
    co_return done;
  };
  EXPECT_EQ(run(all(*reactor, *leader, requests, *disk)), requests.size());
  // The first one's, and one for all the others.
  EXPECT_EQ(disk->offsets().size() - before, 2u);
  EXPECT_TRUE(run(leader->close()).ok());
}

TEST_F(VolumeLeaderTest, AFullVolumeEvictsAndWaitsForAFileThatIsBeingSealed) {
  auto leader = begin(files);
  const ClientId client = join(*leader);
  ASSERT_TRUE(run(leader->decide(tree::SetLimits{.maxBytes = 2 << 22})).ok());
  const auto ask = [&](tree::ClientChange change) -> tree::Request {
    return {.id = {client, ++number}, .epoch = epoch, .change = std::move(change)};
  };
  const auto make = [&](const std::string& name) {
    return run(leader->change(ask(tree::Create{.place = inRootFolder(name), .opens = true})))
        ->answer;
  };
  const auto publish = [&](const Answer& made, bool ends) {
    tree::Publish change{.inode = made.inode, .session = made.session};
    change.content = {.version = {made.session, 1},
                      .length = 2 << 22,
                      .runs = {{made.session, 0, 2, client.agent}}};
    change.usedChunks = 2;
    change.ends = ends;
    return ask(change);
  };
  const Answer old = make("f");
  ASSERT_EQ(run(leader->change(publish(old, false)))->answer.error, 0);
  const Answer second = make("second");
  // Nothing may go but the file that its agent has not sealed yet.
  spawn([](VolumeLeader& leader, Reactor& reactor, tree::Request end) -> Task<void> {
    co_await reactor.sleep(std::chrono::milliseconds(1));
    (void)co_await leader.change(std::move(end));
  }(*leader, *reactor, ask(tree::EndSession{old.inode, old.session, 2})));
  EXPECT_EQ(run(leader->change(publish(second, true)))->answer.error, 0);
  EXPECT_EQ(leader->evictions().files, 1U);
  EXPECT_EQ(leader->evictions().youngFiles, 1U);
  EXPECT_EQ(run(leader->query(lookUp))->error, ENOENT);
  // A file that is gone is gone for the next leader, too.
  const auto disk = files.crashCopy(1);
  leader = begin(*disk);
  EXPECT_EQ(run(leader->query(lookUp))->error, ENOENT);
}

}  // namespace
}  // namespace hearth
