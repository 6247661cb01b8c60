#include "origin/scripted_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"

namespace hearth {
namespace {

// Prepares the process as the origin client demands, without proxies from outside.
const bool prepared = [] {
  std::signal(SIGPIPE, SIG_IGN);
  for (const char* const name :
       {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    unsetenv(name);
  }
  return true;
}();

}  // namespace

std::optional<std::pair<std::uint64_t, std::uint64_t>> ScriptedRequest::range() const {
  const auto found = headers.find("range");
  unsigned long long first = 0;
  unsigned long long last = 0;
  if (found == headers.end() ||
      std::sscanf(found->second.c_str(), "bytes=%llu-%llu", &first, &last) != 2) {
    return std::nullopt;
  }
  return std::pair<std::uint64_t, std::uint64_t>{first, last};
}

bool ScriptedConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const int size = static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20));
    const auto sent = tls_ != nullptr
                          ? SSL_write(tls_, bytes.data(), size)
                          : static_cast<int>(::send(fd_, bytes.data(),
                                                    static_cast<std::size_t>(size), MSG_NOSIGNAL));
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::size_t ScriptedConnection::receive(char* into, std::size_t size) {
  const auto count = tls_ != nullptr ? SSL_read(tls_, into, static_cast<int>(size))
                                     : static_cast<int>(recv(fd_, into, size, 0));
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

void ScriptedConnection::resetOnClose() {
  const linger hard{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

void ScriptedConnection::sleep(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  while (!stopping_ && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

ScriptedServer::ScriptedServer(Script script, SSL_CTX* tls)
    : script_(std::move(script)), tls_(tls) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("scripted server");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { acceptLoop(); });
}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  close(listener_);
}

std::string ScriptedServer::url(std::string_view path) const {
  return (tls_ != nullptr ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(port_) +
         std::string(path);
}

std::vector<ScriptedRequest> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void ScriptedServer::acceptLoop() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void ScriptedServer::serve(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SSL* const tls = tls_ != nullptr ? SSL_new(tls_) : nullptr;
  if (tls != nullptr) SSL_set_fd(tls, fd);
  ScriptedConnection connection(fd, tls, stopping_);
  std::string buffer;
  bool open = tls == nullptr || SSL_accept(tls) == 1;
  while (open && !stopping_) {
    std::size_t end = buffer.find("\r\n\r\n");
    if (end == buffer.npos) {
      char bytes[4096];
      const std::size_t count = connection.receive(bytes, sizeof bytes);
      if (count == 0) break;
      buffer.append(bytes, count);
      continue;
    }
    ScriptedRequest request;
    const std::string head = buffer.substr(0, end + 2);
    buffer.erase(0, end + 4);
    std::size_t at = head.find("\r\n") + 2;
    request.target = head.substr(4, head.find(' ', 4) - 4);
    while (at < head.size()) {
      const std::size_t lineEnd = head.find("\r\n", at);
      const std::size_t colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      std::string value = head.substr(colon + 1, lineEnd - colon - 1);
      value.erase(0, value.find_first_not_of(' '));
      request.headers[name] = value;
      at = lineEnd + 2;
    }
    {
      const std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size()) + 1;
      requests_.push_back(request);
    }
    const int now = ++now_;
    for (int most = mostAtOnce_; now > most && !mostAtOnce_.compare_exchange_weak(most, now);) {
    }
    open = script_(request, connection);
    --now_;
  }
  if (tls != nullptr) SSL_free(tls);
  const std::lock_guard lock(mutex_);
  open_.remove(fd);
  close(fd);
}

std::string patternedObject(std::size_t size) {
  std::string object(size, '\0');
  std::uint64_t state = 88172645463325252ull;
  for (char& c : object) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    c = static_cast<char>(state);
  }
  return object;
}

bool serveObject(const std::string& object, const ScriptedRequest& request, ScriptedConnection& to,
                 const std::string& extraHeaders) {
  const auto range = request.range();
  if (!range) return answer(to, "200 OK", extraHeaders, object);
  const auto [first, last] = *range;
  if (last >= object.size()) {
    return answer(to, "416 Range Not Satisfiable",
                  "Content-Range: bytes */" + std::to_string(object.size()) + "\r\n");
  }
  return answer(to, "206 Partial Content",
                extraHeaders + "Content-Range: bytes " + std::to_string(first) + "-" +
                    std::to_string(last) + "/" + std::to_string(object.size()) + "\r\n",
                object.substr(first, last - first + 1));
}

bool answer(ScriptedConnection& to, const std::string& status, const std::string& headers,
            const std::string& body) {
  return to.send("HTTP/1.1 " + status + "\r\n" + headers +
                 "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n") &&
         to.send(body);
}

}  // namespace hearth
