// The holder's socket: who is let in, and what a client can do to the others.
#include "holder/holder_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <random>
#include <thread>

#include "holder/holder_socket.h"
#include "holder/testing/holder_fixture.h"

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

TEST_F(HolderServerTest, AClientThatNeverReadsHoldsNobodyUp) {
  const OwnedFd raw = connectRaw();
  const auto request = encode(HolderRequest{});
  for (int i = 0; i < 5000; ++i) {
    if (send(raw.get(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, SocketIsForItsUserOnly) {
  struct stat info {};
  ASSERT_EQ(stat(socketPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  // Even where the mode lets somebody through.
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

TEST_F(HolderServerTest, WhetherTheHolderLivesIsToldWhileACallWaits) {
  // A holder that takes connections and answers nobody but the greeting.
  endServer();
  const OwnedFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto address = holderAddress(socketPath());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  OwnedFd peer;
  std::thread silent([&] {
    peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)receiveDatagram(peer.get(), 0);
    HolderReply reply;
    reply.sequence = 1;
    reply.hello.emplace();
    (void)sendDatagram(peer.get(), encode(reply), {}, 0);
  });
  const auto client = HolderClient::connect(socketPath(), std::chrono::seconds(30));
  silent.join();
  ASSERT_TRUE(client.ok()) << client.error().message;
  std::thread waiting([&] { EXPECT_FALSE((*client)->list().ok()); });
  // The call has been sent, so the thread waits for its answer.
  EXPECT_TRUE(receiveDatagram(peer.get(), 0).ok());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE((*client)->alive());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
  peer.reset();
  waiting.join();
  EXPECT_FALSE((*client)->alive());
}

}  // namespace
}  // namespace hearth
