// For tests: a listening socket on the loopback, for playing an origin. Alone it takes connections
// and never answers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "transport/socket.h"

namespace hearth::testing_cluster {

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

}  // namespace hearth::testing_cluster
