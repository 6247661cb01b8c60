// The holder's socket: who is let in, and what a client can do to the others.
#include "holder/holder_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/clock.h"
#include "holder/holder_socket.h"
#include "holder/testing/dead_mount.h"
#include "holder/testing/holder_fixture.h"
#include "holder/testing/other_process.h"

namespace hearth {
namespace {

class HolderServerTest : public holder_testing::HolderTest {};

TEST_F(HolderServerTest, SurvivesMessagesOfAnyKind) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const OwnedFd raw = connectRaw();
    std::vector<char> bytes(1 + random() % 40000);
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) continue;
    std::vector<std::byte> reply(kMaxHolderMessage);
    const ssize_t size = recv(raw.get(), reply.data(), reply.size(), 0);
    ASSERT_GT(size, 0);
    const auto decoded = decodeHolderReply(std::span(reply).first(static_cast<std::size_t>(size)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->code, ErrorCode::kProtocolError);
    EXPECT_EQ(recv(raw.get(), reply.data(), reply.size(), 0), 0);  // closed
  }
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, AClientThatNeverReadsHoldsUpNoOther) {
  const OwnedFd raw = connectRaw();
  const auto request = encode(HolderRequest{});
  for (int i = 0; i < 5000; ++i) {
    if (send(raw.get(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_TRUE(connect()->list().ok());
}

// Both ask for something below a file system that never answers.
class HangingPathTest : public HolderServerTest {
 protected:
  void SetUp() override {
    HolderServerTest::SetUp();
    if (IsSkipped()) return;
    std::filesystem::create_directory(root_ / "dead");
    dead_.emplace(root_ / "dead");
    ASSERT_TRUE(dead_->mounted());
  }
  // The folder can be removed when nothing hangs below it.
  void TearDown() override {
    dead_.reset();
    HolderServerTest::TearDown();
  }
  std::string target() const { return (root_ / "dead" / "mnt").string(); }
  // For calls that do not hang, of which each is a process of its own.
  static constexpr std::chrono::seconds kEnough{2};
  // Of a holder whose calls end after `deadline`.
  void restart(std::chrono::milliseconds deadline) {
    endServer();
    startServer({.callDeadline = deadline});
  }
  // Child processes of ours that have not ended.
  static std::size_t walks() {
    std::size_t found = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) {
        std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
        std::string line;
        // The state stands behind the name, which is in brackets (proc_pid_stat(5)).
        if (std::getline(stat, line) && line[line.rfind(')') + 2] != 'Z') ++found;
      }
    }
    return found;
  }
  std::optional<holder_testing::DeadMount> dead_;
};

TEST_F(HangingPathTest, CostsItsAskerAnErrorThatNamesIt) {
  restart(kEnough);
  const auto client = connect("a");
  const auto mounted = client->mount({.target = target(), .source = "test"});
  EXPECT_EQ(mounted.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(mounted.error().message.find(target()), std::string::npos);
  EXPECT_EQ(client->unmount(target(), true).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(client->mount({.target = mnt(), .source = "test"}).ok()) << "it can ask again";
}

TEST_F(HangingPathTest, NoOtherWaitsForIt) {
  restart(2 * kHang);
  const auto hanging = connect("a"), other = connect("b");
  std::thread asking([&] {
    // Until the file system ends, below.
    EXPECT_NE(hanging->mount({.target = target(), .source = "test"}).code(), ErrorCode::kOk);
  });
  ASSERT_TRUE(eventually([&] { return walks() == 1; }));
  EXPECT_TRUE(other->mount({.target = mnt(), .source = "test"}).ok());
  EXPECT_EQ(other->list()->size(), 1u);
  EXPECT_TRUE(other->unmount(mnt(), false).ok());
  EXPECT_EQ(walks(), 1u) << "it hung all the while";
  dead_->end();
  asking.join();
}

TEST_F(HangingPathTest, AMountThatHasGoneIsForgottenAllTheSame) {
  dead_.reset();
  restart(kEnough);
  std::filesystem::create_directories(target());
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = target(), .source = "test"}).ok());
  ASSERT_EQ(umount2(target().c_str(), MNT_DETACH), 0);
  dead_.emplace(root_ / "dead");  // the way to it hangs from now on
  ASSERT_TRUE(dead_->mounted());
  EXPECT_TRUE(client->unmount(target(), false).ok());
  EXPECT_TRUE(client->list()->empty());
}

TEST_F(HangingPathTest, AgentsThatAskForMoreLeaveRoomForOthers) {
  restart(2 * kHang);
  std::vector<OwnedFd> asking;
  const auto bytes = encode({.kind = HolderRequestKind::kUnmount, .target = target()});
  for (std::size_t i = 0; i < ChildCalls::kMaxHung; ++i) {
    asking.push_back(connectRaw());
    ASSERT_GT(send(asking.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  ASSERT_TRUE(eventually([&] { return walks() == ChildCalls::kMaxHung / 2; }));
  EXPECT_EQ(connect()->unmount(target(), true).code(), ErrorCode::kUnavailable);
  EXPECT_EQ(walks(), ChildCalls::kMaxHung / 2);
}

// Also when as many paths are walked as may be.
TEST_F(HangingPathTest, TheHolderDetachesWhatWasLeftWhileManyAsk) {
  endServer();
  const std::string left = (root_ / "volumes/mounts/a").string();
  std::filesystem::create_directories(left);
  ASSERT_EQ(::mount("tmpfs", left.c_str(), "tmpfs", 0, nullptr), 0);
  startServer({.callDeadline = 2 * kHang, .volumes = (root_ / "volumes").string()});
  std::vector<OwnedFd> asking;
  const auto bytes = encode({.kind = HolderRequestKind::kUnmount, .target = target()});
  for (std::size_t i = 0; i < ChildCalls::kMaxHung / 2; ++i) {
    asking.push_back(connectRaw());
    ASSERT_GT(send(asking.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  ASSERT_TRUE(eventually([&] { return walks() == asking.size(); }));
  endServer();
  const auto row = findMount(left);
  ASSERT_TRUE(row.ok());
  EXPECT_FALSE(row->has_value());
}

TEST_F(HangingPathTest, AnAgentThatGoesWhileItWaitsMakesPlaceForTheNext) {
  restart(2 * kHang);
  {
    const OwnedFd raw = connectRaw();
    const auto ask = [&raw](HolderRequest request) {
      const auto bytes = encode(request);
      ASSERT_GT(send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    };
    ask({.kind = HolderRequestKind::kAttach, .owner = "a"});
    ask({.kind = HolderRequestKind::kMount, .target = target(), .source = "test"});
    ASSERT_TRUE(eventually([&] { return walks() == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return walks() == 0; })) << "its child process is gone";
  const auto next = connect();
  EXPECT_TRUE(next->attach("a").ok());
}

TEST_F(HangingPathTest, TheHolderEndsWithoutWaitingForIt) {
  restart(2 * kHang);
  const auto client = connect();
  std::thread asking(
      [&] { EXPECT_EQ(client->unmount(target(), true).code(), ErrorCode::kUnavailable); });
  ASSERT_TRUE(eventually([&] { return walks() == 1; }));
  endServer();
  asking.join();
  EXPECT_TRUE(eventually([&] { return walks() == 0; }));
}

TEST_F(HolderServerTest, SocketIsForItsUserOnly) {
  struct stat info {};
  ASSERT_EQ(stat(socketPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  // Even where the mode lets another user through.
  ASSERT_EQ(chmod(socketPath().c_str(), 0666), 0);
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  const std::string path = socketPath();
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(3);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(4);
    std::byte bytes[4096];
    const ssize_t size = recv(fd, bytes, sizeof bytes, 0);
    if (size <= 0) _exit(5);
    const auto reply = decodeHolderReply(std::span(bytes, static_cast<std::size_t>(size)));
    _exit(reply.ok() && reply->code == ErrorCode::kPermissionDenied ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(HolderServerTest, ThereIsOneHolderASocket) {
  const auto second = HolderServer::create({.socketPath = socketPath()});
  EXPECT_EQ(second.code(), ErrorCode::kInUse);
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, ClientsSayWhenThereIsNoHolder) {
  EXPECT_EQ(HolderClient::connect((root_ / "none").string()).code(), ErrorCode::kUnavailable);
  const auto client = connect("a");
  endServer();
  EXPECT_FALSE(client->list().ok());
  EXPECT_FALSE(client->list().ok());
}

TEST_F(HolderServerTest, SaysWhoItIsAndWhatItCannotDo) {
  const auto client = connect();
  EXPECT_EQ(client->holder().features, kHolderFeatures);
  EXPECT_EQ(client->holder().newestVersion, kHolderVersion);
  EXPECT_NE(client->holder().instance, 0U);
  const OwnedFd raw = connectRaw();
  HolderRequest unknown;
  unknown.kind = static_cast<HolderRequestKind>(999);
  std::vector<std::byte> reply(kMaxHolderMessage);
  // Twice: whoever asks for what this holder does not know stays connected.
  for (int round = 0; round < 2; ++round) {
    const auto bytes = encode(unknown);
    ASSERT_GT(send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    const ssize_t size = recv(raw.get(), reply.data(), reply.size(), 0);
    ASSERT_GT(size, 0);
    const auto decoded = decodeHolderReply(std::span(reply).first(static_cast<std::size_t>(size)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->code, ErrorCode::kUnsupported);
  }
}

TEST_F(HolderServerTest, WhetherTheHolderLivesIsKnownWhileACallWaits) {
  // A holder that takes connections and answers nothing but the greeting.
  endServer();
  const OwnedFd listener = holder_testing::listeningAt(socketPath());
  OwnedFd peer;
  std::thread silent([&] {
    peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)receiveDatagram(peer.get(), 0);
    HolderReply reply;
    reply.sequence = 1;
    reply.hello.emplace();
    (void)sendDatagram(peer.get(), encode(reply), {}, 0);
  });
  const auto client = HolderClient::connect(socketPath(), kHang);
  silent.join();
  ASSERT_TRUE(client.ok()) << client.error().message;
  std::thread waiting([&] { EXPECT_FALSE((*client)->list().ok()); });
  // The call has been sent, so the thread waits for its answer.
  EXPECT_TRUE(receiveDatagram(peer.get(), 0).ok());
  const auto began = Clock::now();
  EXPECT_TRUE((*client)->alive());
  EXPECT_LT(Clock::now() - began, kHang / 5) << "the call waits for kHang";
  peer.reset();
  waiting.join();
  EXPECT_FALSE((*client)->alive());
}

// In how many of a hundred looks the thread sleeps whose /proc/.../stat that is. One that spins
// runs or waits for a processor, however busy the machine is.
int sleepingOf(int stat) {
  int sleeping = 0;
  for (int look = 0; look < 100; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    char line[512];
    const ssize_t size = pread(stat, line, sizeof line, 0);
    if (size > 0 && std::string_view(line, static_cast<std::size_t>(size)).find(") S ") !=
                        std::string_view::npos)
      ++sleeping;
  }
  return sleeping;
}

// accept() fails, and the listening socket stays readable.
TEST_F(HolderServerTest, WithoutDescriptorsItWaitsInsteadOfSpinning) {
  const auto served = connect("a");
  const std::string path = "/proc/self/task/" + std::to_string(serverThread_) + "/stat";
  const OwnedFd stat(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(stat);
  const OwnedFd waiting(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto address = holderAddress(socketPath());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // No number is free below the highest one in use.
  std::vector<OwnedFd> filled;
  do filled.emplace_back(dup(waiting.get()));
  while (filled.back().get() < 100);
  const rlimit full{static_cast<rlim_t>(filled.back().get()) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  EXPECT_EQ(::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address),
            0);
  EXPECT_TRUE(served->list().ok()) << "others are answered";
  EXPECT_GT(sleepingOf(stat.get()), 50);
  filled.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto hello = encode(HolderRequest{});
  ASSERT_GT(send(waiting.get(), hello.data(), hello.size(), MSG_NOSIGNAL), 0);
  const timeval limit{std::chrono::seconds(kHang).count(), 0};
  setsockopt(waiting.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  EXPECT_TRUE(receiveDatagram(waiting.get(), 0).ok()) << "and it is let in when there are some";
}

}  // namespace
}  // namespace hearth
