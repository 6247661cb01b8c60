// Stands between a client and its holder and passes datagrams on with their descriptors; a test can
// cut both off at any message. Serves one connection, request by request.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "base/owned_fd.h"
#include "base/testing/eventually.h"
#include "holder/holder_protocol.h"
#include "holder/holder_socket.h"

namespace hearth::holder_testing {

class Relay {
 public:
  // Called on the relay's thread for each request, and for its answer before that is passed on.
  // False cuts the connection off on both sides.
  using Pass = std::function<bool(const HolderRequest& request, bool answered)>;

  // Listens at `path` and passes on to the holder at `holder`.
  Relay(const std::string& path, const std::string& holder, Pass pass) : pass_(std::move(pass)) {
    listener_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    holder_.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto here = holderAddress(path);
    const auto there = holderAddress(holder);
    // Longer than the client waits, and not for ever.
    const timeval limit{std::chrono::seconds(kHang).count(), 0};
    setsockopt(holder_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    unlink(path.c_str());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&*here), sizeof *here), 0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    EXPECT_EQ(::connect(holder_.get(), reinterpret_cast<const sockaddr*>(&*there), sizeof *there),
              0);
    thread_ = std::thread([this] { run(); });
  }
  // Waits until the client or the holder has gone, or pass() has cut them off.
  ~Relay() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

 private:
  void run() {
    client_.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    while (exchange()) {
    }
    client_.reset();
    holder_.reset();
  }
  bool exchange() {
    const auto asked = receiveDatagram(client_.get(), 0);
    if (!asked || asked->bytes.empty()) return false;
    const auto request = decodeHolderRequest(asked->bytes);
    return request && pass_(*request, false) && give(holder_, *asked) && answer(*request);
  }
  bool answer(const HolderRequest& request) {
    const auto answered = receiveDatagram(holder_.get(), 0);
    return answered && !answered->bytes.empty() && pass_(request, true) && give(client_, *answered);
  }
  static bool give(const OwnedFd& to, const HolderDatagram& datagram) {
    std::vector<int> descriptors;
    for (const OwnedFd& descriptor : datagram.descriptors) descriptors.push_back(descriptor.get());
    return sendDatagram(to.get(), datagram.bytes, descriptors, 0);
  }

  const Pass pass_;
  OwnedFd listener_;
  OwnedFd client_;
  OwnedFd holder_;
  std::thread thread_;
};

}  // namespace hearth::holder_testing
