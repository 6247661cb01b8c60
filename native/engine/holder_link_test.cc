// An engine whose holder goes, with real mounts: readers go on, and the next holder gets the
// mounts. In a mount namespace of the test's own.
#include "mount/holder_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "fuse/testing/mount_fixture.h"
#include "holder/mount_info.h"
#include "holder/testing/relay.h"

namespace hearth {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;
using testing_cluster::TemporaryFolder;

class HolderLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::filesystem::create_directory(folder_.path("mnt"));
    startHolder();
    origin_.add("model", 9 << 20);
    origin_.add("second", 65537);
    testing_cluster::connect({&agent_});
  }
  void TearDown() override {
    agent_.stop();
    endHolder();
    umount2(mnt().c_str(), MNT_DETACH);
  }
  void startHolder() { holder_.start(); }
  void endHolder() { holder_.stop(); }
  void mount() {
    MountOptions options;
    options.target = mnt();
    options.dataset = agent_.add(origin_);
    options.source = "hearth:test";
    options.path = MountOptions::Path::kFuse;
    const Result<MountInfo> mounted = agent_.await(agent_.engine().mounts().mount(options));
    ASSERT_TRUE(mounted.ok()) << mounted.error().message;
  }
  // The next agent on this node, with the same cache.
  void restartAgent() {
    agent_.stop();
    agent_.start();
    testing_cluster::connect({&agent_});
    (void)agent_.add(origin_);
  }
  Result<std::vector<std::string>> resume() {
    return agent_.await(agent_.engine().mounts().resume());
  }
  // True: the holder has the mount, with an agent that serves it.
  bool held() {
    const auto client = HolderClient::connect(socket());
    if (!client) return false;
    const auto list = (*client)->list();
    return list.ok() && list->size() == 1 && list->front().attached;
  }
  bool reads(const std::string& name, std::size_t size, unsigned seed) {
    std::ifstream file(mnt() + "/" + name, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    return bytes == testing_cluster::pattern(size, seed);
  }
  std::string socket() const { return folder_.path("holder.sock"); }
  std::string mnt() const { return folder_.path("mnt"); }

  TemporaryFolder folder_;
  testing_cluster::TestingHolder holder_{folder_.path("holder.sock")};
  Origin origin_;
  Agent agent_{"a", [this](EngineOptions& options) {
                 options.holder = socket();
                 options.formerAgentsTimeout = std::chrono::milliseconds(0);  // one process
               }};
};

TEST_F(HolderLinkTest, MountsOutliveTheHolderAndThenTheAgent) {
  mount();
  const OwnedFd open(::open((mnt() + "/model").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(open);
  endHolder();
  EXPECT_TRUE(reads("second", 65537, 2)) << "only the agent has the mount";
  startHolder();
  ASSERT_TRUE(eventually([&] { return held(); })) << "the agent gives it to the next holder";
  EXPECT_TRUE(reads("model", 9 << 20, 1));
  restartAgent();
  const auto resumed = resume();
  ASSERT_TRUE(resumed.ok()) << resumed.error().message;
  EXPECT_EQ(*resumed, std::vector<std::string>{mnt()});
  EXPECT_TRUE(reads("model", 9 << 20, 1));
  EXPECT_TRUE(reads("second", 65537, 2));
  char byte = 0;
  EXPECT_EQ(pread(open.get(), &byte, 1, 8 << 20), 1) << strerror(errno);
}

TEST_F(HolderLinkTest, ManyHoldersOneAfterAnother) {
  mount();
  for (int round = 0; round < 3; ++round) {
    endHolder();
    startHolder();
    ASSERT_TRUE(eventually([&] { return held(); }));
  }
  EXPECT_TRUE(reads("second", 65537, 2));
  ASSERT_TRUE(agent_.await(agent_.engine().mounts().unmount(mnt())).ok());
  EXPECT_FALSE(findMount(mnt())->has_value());
}

TEST_F(HolderLinkTest, AMountThatLostBothIsMadeAgainOverTheDeadOne) {
  mount();
  endHolder();
  restartAgent();
  ASSERT_TRUE(findMount(mnt())->has_value());
  struct stat about {};
  EXPECT_NE(stat(mnt().c_str(), &about), 0);
  EXPECT_EQ(errno, ENOTCONN);
  EXPECT_FALSE(resume().ok()) << "no holder";
  startHolder();
  EXPECT_TRUE(resume()->empty());
  mount();
  EXPECT_TRUE(reads("second", 65537, 2));
}

TEST_F(HolderLinkTest, WithoutAHolderUnmountingSaysSo) {
  mount();
  endHolder();
  const Status unmounted = agent_.await(agent_.engine().mounts().unmount(mnt()));
  EXPECT_EQ(unmounted.code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(reads("second", 65537, 2));
}

// While the next holder gets the first mount, FUSE_INIT is answered, and a new mount begins to be
// served.
TEST_F(HolderLinkTest, ANewHolderHearsOfChangesMadeMeanwhile) {
  const std::string other = folder_.path("other"), next = folder_.path("next.sock");
  std::filesystem::create_directory(other);
  HolderLink link({.owner = "link", .socket = socket(), .log = [](bool, const std::string&) {}});
  ASSERT_TRUE(link.connect().ok());
  const auto first = link.client()->mount({.target = mnt(), .source = "x"});
  const auto second = link.client()->mount({.target = other, .source = "y"});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(link.serve(*first).ok());
  endHolder();
  auto follower = HolderServer::create({.socketPath = next});
  ASSERT_TRUE(follower.ok()) << follower.error().message;
  std::thread running([&] { (*follower)->run(); });
  {
    bool once = false;
    const holder_testing::Relay relay(
        socket(), next, [&](const HolderRequest& request, bool answered) {
          if (request.kind != HolderRequestKind::kRegister || !answered || once) return true;
          once = true;
          EXPECT_TRUE(link.saveState(mnt(), "negotiated").ok());
          EXPECT_TRUE(link.serve(*second).ok());
          return true;
        });
    EXPECT_TRUE(eventually([&] { return link.client() != nullptr; }));
    const auto held = (*HolderClient::connect(next))->list();
    EXPECT_TRUE(held.ok() && held->size() == 2);
    for (const HolderRecord& record : *held) {
      EXPECT_EQ(record.state, record.target == mnt() ? "negotiated" : "");
    }
    link.close();
  }
  (*follower)->stop();
  running.join();
  umount2(other.c_str(), MNT_DETACH);
}

// Otherwise two sessions would serve one mount.
TEST_F(HolderLinkTest, AMountIsFoundOnceThoughTheFirstHolderIsLost) {
  {
    const auto before = HolderClient::connect(socket());
    ASSERT_TRUE(before.ok() && (*before)->attach("link").ok());
    ASSERT_TRUE((*before)->mount({.target = mnt(), .source = "x"}).ok());
  }
  const std::string relayed = folder_.path("relay.sock");
  HolderLink link({.owner = "link", .socket = relayed, .log = [](bool, const std::string&) {}});
  {
    const holder_testing::Relay relay(relayed, socket(), [](const HolderRequest& request, bool) {
      return request.kind != HolderRequestKind::kRegister;
    });
    EXPECT_FALSE(link.connect().ok()) << "lost while it is given the mount";
  }
  const holder_testing::Relay relay(relayed, socket(),
                                    [](const HolderRequest&, bool) { return true; });
  const Status connected = link.connect();
  EXPECT_TRUE(connected.ok()) << connected.error().message;
  const std::vector<HeldMount> found = link.takeMounts();
  EXPECT_EQ(found.size(), 1u);
  if (!found.empty()) EXPECT_EQ(found.front().record.epoch, 3u) << "that of the last holder";
  link.close();
}

}  // namespace
}  // namespace hearth
