// The agent's socket for programs of its node, with a program that says what a test wants.
#include "transport/local_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "reactor/blocking_call.h"
#include "transport/raw_peer.h"

namespace hearth {
namespace {

// Answers with 16 KiB, and passes no file.
struct TalkingHandler final : LocalHandler {
  Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability>,
                                           ControlMessage request) override {
    request.body.resize(16u << 10);
    co_return LocalAnswer{std::move(request), {}, nullptr};
  }
};

class LocalServerTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  LocalServerTest() : reactor(std::move(*Reactor::create(GetParam()))) {
    thread = std::thread([this] { reactor->run(); });
    LocalServerOptions options{
        path, "agent", "1", "test", TestNode::secretOf("secret"), ClientLimits::shared(1u << 20)};
    options.sendTimeout = 100ms;
    server = runOn(*reactor, listen(*this, std::move(options)));
  }
  ~LocalServerTest() override {
    runOn(*reactor, close(*server));
    reactor->stop();
    thread.join();
    std::filesystem::remove_all(folder);
  }
  static Task<std::unique_ptr<LocalServer>> listen(LocalServerTest& test,
                                                   LocalServerOptions options) {
    auto made = LocalServer::listen(*test.reactor, std::move(options), test.handler);
    EXPECT_TRUE(made.ok());
    co_return std::move(*made);
  }
  static Task<bool> close(LocalServer& server) {
    co_await server.close();
    co_return true;
  }
  // A program that has proved a token.
  std::unique_ptr<RawPeer> program() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    auto peer = std::make_unique<RawPeer>(fd);
    Capability capability{.cluster = "test",
                          .node = "",
                          .expiresAtMs = std::uint64_t{1} << 62,
                          .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
                          .datasets = {"llm"}};
    EXPECT_TRUE(peer->joinAsClient(*signCapability(capability, TestNode::secretOf("secret")), "p"));
    return peer;
  }
  static bool ask(RawPeer& program, std::uint64_t number) {
    return program.send(encodeFrame(ControlRequest{7, {}}, number));
  }

  std::string folder = [] {
    std::string name = "/tmp/hearth-local-XXXXXX";
    return std::string(mkdtemp(name.data()));
  }();
  const std::string path = folder + "/agent.sock";
  std::unique_ptr<Reactor> reactor;
  std::thread thread;
  TalkingHandler handler;
  std::unique_ptr<LocalServer> server;
};

INSTANTIATE_TEST_SUITE_P(Backends, LocalServerTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(LocalServerTest, AProgramThatTakesNoAnswersLosesItsConnection) {
  const auto silent = program(), other = program();
  // More than the kernel keeps for it.
  for (std::uint64_t number = 1; number <= 64; ++number) ASSERT_TRUE(ask(*silent, number));
  pollfd hungUp{silent->fd(), POLLRDHUP, 0};
  int ended = 0;
  do {
    ended = poll(&hungUp, 1, static_cast<int>(std::chrono::milliseconds(kHang).count()));
  } while (ended < 0 && errno == EINTR);
  EXPECT_EQ(ended, 1);
  ASSERT_TRUE(ask(*other, 1));
  const std::optional<ControlAnswer> answer = other->expect<ControlAnswer>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body.size(), std::size_t{16} << 10);
}

}  // namespace
}  // namespace hearth
