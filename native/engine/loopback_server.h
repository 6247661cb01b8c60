// Listening sockets on the loopback that play an origin. For tests.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/testing_cluster.h"
#include "transport/socket.h"

namespace hearth::testing_cluster {

// Takes connections and never answers.
class LoopbackServer {
 public:
  LoopbackServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const SocketAddress any = *socketAddress({"127.0.0.1", 0});
    EXPECT_EQ(bind(socket_.fd(), any.get(), any.size), 0);
    EXPECT_EQ(listen(socket_.fd(), 128), 0);
  }
  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] std::string url() const { return "http://" + textOf(localAddress(fd())) + "/"; }

 private:
  Socket socket_;
};

// Gives ranges of one file of `size` bytes, "model", one a connection.
class RangeServer {
 public:
  // Writes the bytes from `first` to `last`, which is the last one; on a thread of the connection.
  using Body = std::function<void(int fd, std::uint64_t first, std::uint64_t last)>;

  // `tag`: the file's ETag; empty: it has none.
  RangeServer(std::uint64_t size, Body body, std::string tag = "\"1\"")
      : size_(size),
        body_(std::move(body)),
        tag_(std::move(tag)),
        acceptor_([this] { accept(); }) {}
  ~RangeServer() { stop(); }
  RangeServer(const RangeServer&) = delete;
  RangeServer& operator=(const RangeServer&) = delete;

  [[nodiscard]] std::string url() const { return url_; }
  // As an agent would list it.
  [[nodiscard]] std::vector<std::byte> manifest() const {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "model";
    row.size = size_;
    row.validator = "etag:\"1\"";
    row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
    builder.add(std::move(row));
    return *builder.build();
  }
  [[nodiscard]] Location location() const {
    Location base;
    base.url = url();
    return base;
  }
  // Breaks off its answers; refuses connections from then on.
  void stop() {
    stopping_ = true;
    if (acceptor_.joinable()) acceptor_.join();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
    server_.reset();
  }
  // `answer`: called before each range, and sent instead of it unless empty. Call before the first
  // request.
  void refuse(std::function<std::string()> answer) { refusal_ = std::move(answer); }
  // Requests for ranges so far.
  [[nodiscard]] int requests() const { return requests_; }
  // True: bodies must end.
  [[nodiscard]] bool stopping() const { return stopping_; }
  // False when the other side has gone.
  static bool send(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

 private:
  void accept() {
    while (!stopping_) {
      pollfd waiting{server_->fd(), POLLIN, 0};
      if (poll(&waiting, 1, 50) != 1) continue;
      const int fd = accept4(server_->fd(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd >= 0) threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    std::string request;
    char buffer[4096];
    while (!stopping_ && request.find("\r\n\r\n") == request.npos) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 50) != 1) continue;
      const ssize_t count = recv(fd, buffer, sizeof buffer, 0);
      if (count <= 0) break;
      request.append(buffer, static_cast<std::size_t>(count));
    }
    unsigned long long first = 0, last = 0;
    const std::size_t range = request.find("bytes=");
    if (range != request.npos &&
        std::sscanf(request.c_str() + range, "bytes=%llu-%llu", &first, &last) == 2) {
      const std::string about =
          "HTTP/1.1 206 Partial Content" + (tag_.empty() ? "" : "\r\nETag: " + tag_) +
          "\r\nConnection: close\r\nContent-Range: bytes " + std::to_string(first) + "-" +
          std::to_string(last) + "/" + std::to_string(size_) +
          "\r\nContent-Length: " + std::to_string(last - first + 1) + "\r\n\r\n";
      ++requests_;
      const std::string refusal = refusal_ ? refusal_() : "";
      if (!refusal.empty()) {
        send(fd, refusal);
      } else if (send(fd, about)) {
        body_(fd, first, last);
      }
    }
    ::close(fd);
  }

  const std::uint64_t size_;
  const Body body_;
  const std::string tag_;
  std::function<std::string()> refusal_;
  std::optional<LoopbackServer> server_{std::in_place};
  const std::string url_ = server_->url();
  std::atomic<int> requests_{0};
  std::atomic<bool> stopping_{false};
  std::list<std::thread> threads_;  // the acceptor's
  std::thread acceptor_;
};

}  // namespace hearth::testing_cluster
