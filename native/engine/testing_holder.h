// A holder in this process, which can end and be followed by another one. For tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "holder/holder_server.h"

namespace hearth::testing_cluster {

class TestingHolder {
 public:
  explicit TestingHolder(std::string socket) : socket_(std::move(socket)) {}
  ~TestingHolder() { stop(); }
  TestingHolder(const TestingHolder&) = delete;
  TestingHolder& operator=(const TestingHolder&) = delete;

  // `touchBytes`: memory that it takes for agents, each part of it within `deadline`.
  void start(std::uint64_t touchBytes = 0,
             std::chrono::milliseconds deadline = std::chrono::seconds(5)) {
    auto server = HolderServer::create(
        {.socketPath = socket_, .callDeadline = deadline, .touchBytes = touchBytes});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->run(); });
  }
  void stop() {
    if (server_ == nullptr) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  [[nodiscard]] const std::string& socket() const { return socket_; }

 private:
  const std::string socket_;
  std::unique_ptr<HolderServer> server_;
  std::thread thread_;
};

}  // namespace hearth::testing_cluster
