#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <list>
#include <mutex>
#include <thread>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

const std::string kObject = patternedObject(100'000);

int loopbackSocket(std::uint16_t port, bool listens) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const int failed = listens ? bind(fd, generic, sizeof address) + listen(fd, 16)
                             : connect(fd, generic, sizeof address);
  EXPECT_EQ(failed, 0);
  return fd;
}

// An HTTP proxy for which every name is this machine: it connects to the port that is asked for.
class LoopbackProxy {
 public:
  LoopbackProxy() {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] {
      for (;;) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) return;
        const std::lock_guard lock(mutex_);
        open_.push_back(fd);
        threads_.emplace_back([this, fd] { serve(fd); });
      }
    });
  }
  ~LoopbackProxy() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }

  // Instead of serving; empty: serves. Before the first request.
  std::string refusal;

  [[nodiscard]] std::string url(const std::string& user = {}) const {
    return "http://" + user + "127.0.0.1:" + std::to_string(port_);
  }
  // Of each connection, the head of its first request.
  [[nodiscard]] std::vector<std::string> heads() const {
    const std::lock_guard lock(mutex_);
    return heads_;
  }

 private:
  void serve(int fd) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && recv(fd, &byte, 1, 0) == 1) head += byte;
    {
      const std::lock_guard lock(mutex_);
      heads_.push_back(head);
    }
    if (!refusal.empty()) {
      const std::string answer = "HTTP/1.1 " + refusal + "\r\nContent-Length: 0\r\n\r\n";
      send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    } else if (!head.empty()) {
      relay(fd, head);
    }
    const std::lock_guard lock(mutex_);
    open_.remove(fd);
    close(fd);
  }

  static void relay(int fd, const std::string& head) {
    const bool tunnels = head.starts_with("CONNECT ");
    const std::size_t colon = head.find(':', tunnels ? 0 : head.find("://") + 3);
    const int target =
        loopbackSocket(static_cast<std::uint16_t>(std::stoi(head.substr(colon + 1))), false);
    const std::string first = tunnels ? "HTTP/1.1 200 OK\r\n\r\n" : head;
    send(tunnels ? fd : target, first.data(), first.size(), MSG_NOSIGNAL);
    std::array<pollfd, 2> ends{pollfd{fd, POLLIN, 0}, pollfd{target, POLLIN, 0}};
    for (bool open = true; open && poll(ends.data(), ends.size(), -1) > 0;) {
      for (std::size_t from = 0; from < 2; ++from) {
        if (ends[from].revents == 0) continue;
        char bytes[16384];
        const auto came = recv(ends[from].fd, bytes, sizeof bytes, 0);
        open = open && came > 0 &&
               send(ends[1 - from].fd, bytes, static_cast<std::size_t>(came), MSG_NOSIGNAL) == came;
      }
    }
    close(target);
  }

  const int listener_ = loopbackSocket(0, true);
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> heads_;
  std::list<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

class ProxiedOriginTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    options.forbidPrivateAddresses = true;
    options.attempts = 1;
    options.proxies.http = proxy.url();
    options.proxies.https = proxy.url();
  }
  // The URL of the server, by this name.
  [[nodiscard]] std::string named(const std::string& host,
                                  std::string_view path = "/object") const {
    const std::string url = server.url(path);
    return "http://" + host + url.substr(url.find(':', 7));
  }
  Answer read(const std::string& url) { return fetch(at(url), {}, 0, {kObject.size()}); }

  LoopbackProxy proxy;
  ScriptedServer server{[](const ScriptedRequest& request, ScriptedConnection& to) {
    if (request.target.ends_with("/to-private"))
      return answer(to, "302 Found", "Location: http://10.0.0.1/object\r\n");
    return serveObject(kObject, request, to);
  }};
};

INSTANTIATE_TEST_SUITE_P(Backends, ProxiedOriginTest,
                         testing::Values(Reactor::Backend::kEpoll, Reactor::Backend::kIoUring),
                         OriginFixture::backendName);

TEST_P(ProxiedOriginTest, AsksTheProxyForNamesThatOnlyTheProxyKnows) {
  const Answer came = read(named("bucket.invalid"));
  ASSERT_TRUE(came.status.ok()) << came.status.error().message;
  EXPECT_EQ(came.bytes, kObject);
  ASSERT_EQ(proxy.heads().size(), 1u);
  EXPECT_TRUE(proxy.heads()[0].starts_with("GET " + named("bucket.invalid") + " HTTP/1.1\r\n"));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_P(ProxiedOriginTest, SendsTheProxysCredentialsToTheProxy) {
  options.proxies.http = proxy.url("user:word@");
  ASSERT_TRUE(read(named("bucket.invalid")).status.ok());
  EXPECT_NE(proxy.heads().at(0).find("Proxy-Authorization: Basic dXNlcjp3b3Jk\r\n"),
            std::string::npos);
}

TEST_P(ProxiedOriginTest, AsksListedHostsDirectly) {
  options.proxies.none = "192.0.2.0/24,.invalid";
  EXPECT_EQ(read(named("bucket.invalid")).status.code(), ErrorCode::kUnavailable);
  // This machine is asked directly as well, and so the address policy holds for it.
  EXPECT_EQ(read(server.url()).status.code(), ErrorCode::kPermissionDenied);
  EXPECT_TRUE(proxy.heads().empty());
  EXPECT_TRUE(server.requests().empty());
}

TEST_P(ProxiedOriginTest, RefusesPrivateAddressesInUrlsAndRedirects) {
  for (const char* const host : {"10.0.0.1", "0xa9fea9fe", "169.254.169.254.", "[fd00::1]",
                                 "%31%30.0.0.1", "\uff11\uff10.0.0.1"}) {
    EXPECT_EQ(read("http://" + std::string(host) + "/x").status.code(),
              ErrorCode::kPermissionDenied)
        << host;
  }
  EXPECT_TRUE(proxy.heads().empty());
  EXPECT_EQ(read(named("bucket.invalid", "/to-private")).status.code(),
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(proxy.heads().size(), 1u);
}

TEST_P(ProxiedOriginTest, AllowsListedAddressesThroughTheProxy) {
  options.allowedNetworks = {"10.0.0.0/8"};
  EXPECT_TRUE(read(named("10.0.0.1")).status.ok());
  EXPECT_EQ(proxy.heads().size(), 1u);
}

TEST_P(ProxiedOriginTest, SaysThatTheProxyRefusedTheHost) {
  proxy.refusal = "403 Forbidden";
  const Answer refused = read("https://bucket.invalid/object");
  EXPECT_EQ(refused.status.code(), ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.status.error().message.find("NO_PROXY"), std::string::npos)
      << refused.status.error().message;
  EXPECT_TRUE(proxy.heads().at(0).starts_with("CONNECT bucket.invalid:443 HTTP/1.1\r\n"));
}

TEST_P(ProxiedOriginTest, SaysThatTheProxyAsksForCredentials) {
  proxy.refusal = "407 Proxy Authentication Required";
  for (const char* const scheme : {"http", "https"}) {
    const Answer refused = read(std::string(scheme) + "://bucket.invalid/object");
    EXPECT_EQ(refused.status.code(), ErrorCode::kUnauthenticated);
    EXPECT_NE(refused.status.error().message.find("proxy"), std::string::npos);
  }
}

TEST_P(ProxiedOriginTest, SaysThatThereIsNoProxy) {
  options.proxies.http = "http://no-such-proxy.invalid:3128";
  const Answer failed = read(named("bucket.invalid"));
  EXPECT_EQ(failed.status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(failed.status.error().message.find("no-such-proxy.invalid"), std::string::npos);
}

TEST_P(ProxiedOriginTest, ReadsNoProxyFromTheEnvironment) {
  options.proxies = {};
  options.forbidPrivateAddresses = false;
  setenv("http_proxy", proxy.url().c_str(), 1);
  const Answer came = read(server.url());
  unsetenv("http_proxy");
  EXPECT_TRUE(came.status.ok());
  EXPECT_TRUE(proxy.heads().empty());
}

}  // namespace
}  // namespace hearth
