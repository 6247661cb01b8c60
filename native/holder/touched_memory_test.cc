// Memory that the holder touches for an agent, and is charged for.
#include "holder/touched_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "holder/holder_socket.h"
#include "holder/testing/holder_fixture.h"
#include "holder/testing/other_process.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

class TouchedMemoryTest : public holder_testing::HolderTest {
 protected:
  void restart(std::uint64_t touchBytes) {
    endServer();
    startServer({.callDeadline = 2 * kHang, .touchBytes = touchBytes});
  }
  // Of a client that has kept it.
  OwnedFd keep(HolderClient& client, const std::string& name, std::uint64_t bytes) {
    OwnedFd file = memory(static_cast<off_t>(bytes));
    EXPECT_TRUE(client.keepMemory({.name = name, .bytes = bytes, .generation = 1}, file).ok());
    return file;
  }
  static std::uint64_t roomOf(const OwnedFd& file) {
    struct stat about {};
    EXPECT_EQ(fstat(file.get(), &about), 0);
    return static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
};

TEST_F(TouchedMemoryTest, IsTouchedInPieces) {
  restart(64 * kMiB);
  const auto client = connect("a");
  EXPECT_EQ(client->holder().touchBytes, 64 * kMiB);
  const OwnedFd file = keep(*client, "arena", 32 * kMiB);
  const auto huge = client->touchMemory("arena", 4 * kMiB, 20 * kMiB, 8 * kMiB);
  ASSERT_TRUE(huge.ok()) << huge.error().message;
  EXPECT_EQ(roomOf(file), 20 * kMiB);
  EXPECT_LE(*huge, 20 * kMiB);
  EXPECT_TRUE(client->touchMemory("arena", 0, 32 * kMiB).ok());
  EXPECT_TRUE(client->touchMemory("arena", 0, 32 * kMiB).ok()) << "again";
  EXPECT_EQ(roomOf(file), 32 * kMiB);
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->record.touched);
}

TEST_F(TouchedMemoryTest, IsNotMoreThanTheHolderIsGiven) {
  restart(16 * kMiB);
  const auto client = connect("a");
  keep(*client, "small", 8 * kMiB);
  keep(*client, "next", 12 * kMiB);
  EXPECT_TRUE(client->touchMemory("small", 0, 8 * kMiB).ok());
  const auto refused = client->touchMemory("next", 0, kMiB);
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfSpace);
  EXPECT_NE(refused.error().message.find("--arena-bytes"), std::string::npos);
  ASSERT_TRUE(client->dropMemory("small").ok());
  EXPECT_TRUE(client->touchMemory("next", 0, kMiB).ok());
}

TEST_F(TouchedMemoryTest, IsTheAgentsOwnWhereTheHolderTouchesNone) {
  const auto client = connect("a");
  keep(*client, "arena", kMiB);
  EXPECT_EQ(client->holder().touchBytes, 0u);
  EXPECT_EQ(client->touchMemory("arena", 0, kMiB).code(), ErrorCode::kUnsupported);
}

TEST_F(TouchedMemoryTest, IsTheAgentsOwnWithAHolderOfTheReleaseBefore) {
  endServer();
  const OwnedFd listener = holder_testing::listeningAt(socketPath());
  OwnedFd peer;
  std::thread before([&] {
    peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)receiveDatagram(peer.get(), 0);
    HolderReply reply;
    reply.sequence = 1;
    reply.hello = HolderHello{.features = {0x7f, 0}};
    (void)sendDatagram(peer.get(), encode(reply), {}, 0);
  });
  const auto client = HolderClient::connect(socketPath(), kHang);
  before.join();
  ASSERT_TRUE(client.ok()) << client.error().message;
  EXPECT_EQ((*client)->touchMemory("arena", 0, kMiB).code(), ErrorCode::kUnsupported);
  EXPECT_TRUE((*client)->alive()) << "it was not asked";
}

TEST_F(TouchedMemoryTest, IsWhatTheAgentHasKept) {
  restart(4096 * kMiB);
  const auto client = connect("a");
  const OwnedFd file = keep(*client, "arena", 2 * kMiB);
  const auto code = [&](const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
    return client->touchMemory(name, offset, bytes, ~std::uint64_t{0}).code();
  };
  EXPECT_EQ(code("other", 0, kMiB), ErrorCode::kNotFound);
  EXPECT_EQ(code("arena", 2 * kMiB, 4096), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("arena", kMiB, 2 * kMiB), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("arena", 0, ~std::uint64_t{0}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("arena", ~std::uint64_t{0} - 4095, 8192), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("arena", 1, 4096), ErrorCode::kInvalidArgument) << "not on a page";
  EXPECT_EQ(roomOf(file), 0u);
  EXPECT_EQ(connect("b")->touchMemory("arena", 0, kMiB).code(), ErrorCode::kNotFound);
  EXPECT_EQ(connect()->touchMemory("arena", 0, kMiB).code(), ErrorCode::kInvalidArgument);
}

// Seconds of work for one agent; mounts of others are made meanwhile.
TEST_F(TouchedMemoryTest, KeepsNoOtherWaiting) {
  restart(4096 * kMiB);
  const auto touching = connect("a"), other = connect("b");
  const OwnedFd file = keep(*touching, "arena", 512 * kMiB);
  std::atomic<bool> done{false};
  std::thread work([&] {
    EXPECT_TRUE(touching->touchMemory("arena", 0, 512 * kMiB, 512 * kMiB).ok());
    done = true;
  });
  ASSERT_TRUE(eventually([&] { return roomOf(file) != 0; }));
  int answered = 0;
  while (!done) {
    EXPECT_TRUE(other->list().ok());
    ++answered;
  }
  work.join();
  EXPECT_GT(answered, 10);
}

// The kernel would kill the holder for taking too much memory.
TEST(ControlGroupRoom, IsThatOfTheNarrowestGroup) {
  namespace fs = std::filesystem;
  std::string root = (fs::temp_directory_path() / "hearth-group-XXXXXX").string();
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto put = [&](const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  EXPECT_EQ(controlGroupRoom(root), ~std::uint64_t{0}) << "no groups";
  put("/proc/self/cgroup", "0::/pods/one\n");
  put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  put("/sys/fs/cgroup/pods/one/memory.current", "100\n");
  EXPECT_EQ(controlGroupRoom(root), ~std::uint64_t{0});
  put("/sys/fs/cgroup/pods/memory.max", "1000\n");
  put("/sys/fs/cgroup/pods/memory.current", "300\n");
  EXPECT_EQ(controlGroupRoom(root), 700u);
  put("/sys/fs/cgroup/pods/one/memory.max", "500\n");
  EXPECT_EQ(controlGroupRoom(root), 400u);
  // Files that are cached go before any process does, but for what is still to be written.
  put("/sys/fs/cgroup/pods/one/memory.current", "500\n");
  put("/sys/fs/cgroup/pods/one/memory.stat",
      "anon 70\nfile 400\nshmem 100\nfile_dirty 40\nfile_writeback 10\n"
      "inactive_anon 100\nactive_anon 70\ninactive_file 200\nactive_file 100\n");
  EXPECT_EQ(controlGroupRoom(root), 250u);
  // In a container the root of what is mounted is ours.
  put("/sys/fs/cgroup/memory.max", "50\n");
  put("/sys/fs/cgroup/memory.current", "80\n");
  EXPECT_EQ(controlGroupRoom(root), 0u);
  EXPECT_EQ(memoryRoom(root), 0u);
  put("/sys/fs/cgroup/memory.max", "max\n");
  put("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 2 kB\n");
  put("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  put("/sys/fs/cgroup/pods/memory.max", "max\n");
  EXPECT_EQ(memoryRoom(root), 2048u);
  fs::remove_all(root);
}

}  // namespace
}  // namespace hearth
