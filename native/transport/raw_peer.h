// Sockets that say what a test wants, as the dialler or as the acceptor. For tests.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/socket.h"
#include "transport/test_node.h"
#include "wire/authentication.h"
#include "wire/capability.h"

namespace hearth {

// A blocking socket with a deadline, for saying things that no transport would.
class RawPeer {
 public:
  // `from`: the source address; "" leaves it to the kernel.
  explicit RawPeer(const PeerAddress& address, const std::string& from = "") {
    const SocketAddress resolved = *socketAddress(address);
    socket_ = Socket(::socket(resolved.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    setDeadline();
    if (!from.empty()) {
      const SocketAddress source = *socketAddress({from, 0});
      EXPECT_EQ(bind(socket_.fd(), source.get(), source.size), 0);
    }
    int result = connect(socket_.fd(), resolved.get(), resolved.size);
    if (result != 0 && errno == EINTR) {  // it goes on; writable when it is done
      pollfd writable{socket_.fd(), POLLOUT, 0};
      while (poll(&writable, 1, -1) < 0 && errno == EINTR) {
      }
      result = remoteAddress(socket_.fd()).host.empty() ? -1 : 0;
    }
    EXPECT_EQ(result, 0);
  }
  explicit RawPeer(int fd) : socket_(fd) { setDeadline(); }

  bool send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;  // io_uring interrupts calls with a timeout
      if (sent < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Up to `size` bytes: fewer at the end of the stream or after kHang.
  std::vector<std::byte> receive(std::size_t size) {
    std::vector<std::byte> bytes(size);
    std::size_t filled = 0;
    while (filled < size) {
      const ssize_t got = receiveSome(std::span(bytes).subspan(filled));
      if (got <= 0) break;
      filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }
  struct Got {
    FrameHeader header;
    std::vector<std::byte> body;
  };
  // Nothing at the end of the stream.
  std::optional<Got> frame() {
    const std::vector<std::byte> bytes = receive(kFrameHeaderBytes);
    if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
    const Result<FrameHeader> header = decodeHeader(bytes);
    if (!header.ok()) return std::nullopt;
    return Got{*header, receive(header->bodyLength)};
  }
  template <class Body>
  std::optional<Body> expect() {
    const std::optional<Got> got = frame();
    if (!got || got->header.type != Body::kType) return std::nullopt;
    const Result<Body> body = decodeBody<Body>(got->body);
    if (!body.ok()) return std::nullopt;
    return *body;
  }
  // True: the other side has closed the connection, or does so within kHang.
  bool closed() {
    std::byte byte;
    const ssize_t got = receiveSome(std::span(&byte, 1));
    return got == 0 || (got < 0 && errno != EAGAIN);
  }
  // Plays the dialler up to and including the credit.
  bool join(const std::string& node = "raw",
            const std::vector<std::byte>& secret = TestNode::secretOf("secret")) {
    return join(encodeFrame(Hello{"test", node, "1", randomNonce()}), secret).has_value();
  }
  // The same with this Hello frame. Returns the other side's choice.
  std::optional<Challenge> join(
      const std::vector<std::byte>& hello,
      const std::vector<std::byte>& secret = TestNode::secretOf("secret")) {
    if (!send(encodeFrame(Preface{0, 1})) || !send(hello)) return std::nullopt;
    const std::optional<Got> challenge = frame();
    if (!challenge || challenge->header.type != FrameType::kChallenge) return std::nullopt;
    const auto helloBody = std::span(hello).subspan(kFrameHeaderBytes);
    const bool proved = prove(
        [&](ConnectionRole role) { return proveSecret(role, helloBody, challenge->body, secret); });
    if (!proved || !expect<Credit>()) return std::nullopt;
    return *decodeBody<Challenge>(challenge->body);
  }
  // Plays a client of that name up to the acceptor's proof; a Credit or a Goodbye follows.
  bool joinAsClient(const CapabilityToken& token, const std::string& name) {
    Hello hello{"test", name, "1", randomNonce()};
    hello.proofKinds = bitOf(ProofKind::kCapability);
    const std::vector<std::byte> frame = encodeFrame(hello);
    if (!send(encodeFrame(Preface{0, 1})) || !send(frame)) return false;
    const std::optional<Got> challenge = this->frame();
    if (!challenge || challenge->header.type != FrameType::kChallenge) return false;
    return prove([&](ConnectionRole role) {
      return proveCapability(role, std::span(frame).subspan(kFrameHeaderBytes), challenge->body,
                             token);
    });
  }
  // Plays the acceptor, as node `node`, up to and including the credit.
  bool welcome(const std::string& node, Credit credit = {1 << 26, 100}) {
    return welcome(encodeFrame(Challenge{"test", node, "1", randomNonce()}), credit);
  }
  // The same with this Challenge frame.
  bool welcome(const std::vector<std::byte>& challenge, Credit credit = {1 << 26, 100}) {
    const std::optional<Preface> preface = expect<Preface>();
    const std::optional<Got> hello = frame();
    if (!preface || !hello || hello->header.type != FrameType::kHello) return false;
    if (!send(challenge) || !expect<Proof>()) return false;
    const Proof proof =
        proveSecret(ConnectionRole::kAcceptor, hello->body,
                    std::span(challenge).subspan(kFrameHeaderBytes), TestNode::secretOf("secret"));
    return send(encodeFrame(proof)) && send(encodeFrame(credit));
  }
  void shutDown() { socket_.shutDown(); }
  [[nodiscard]] int fd() const { return socket_.fd(); }

 private:
  template <class ProofOf>
  bool prove(ProofOf proofOf) {
    if (!send(encodeFrame(proofOf(ConnectionRole::kDialler)))) return false;
    const std::optional<Proof> proof = expect<Proof>();
    return proof && sameProof(*proof, proofOf(ConnectionRole::kAcceptor));
  }
  void setDeadline() {
    const timeval time{std::chrono::seconds(kHang).count(), 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  }
  ssize_t receiveSome(std::span<std::byte> into) {
    for (;;) {
      const ssize_t got = recv(socket_.fd(), into.data(), into.size(), 0);
      if (got >= 0 || errno != EINTR) return got;
    }
  }
  Socket socket_;
};

// Expects that `address` serves an honest dialler from `from`.
inline void expectServing(const PeerAddress& address, const std::string& from = "") {
  RawPeer honest(address, from);
  ASSERT_TRUE(honest.join("honest"));
  ASSERT_TRUE(honest.send(encodeFrame(ReadRequest{{}, 0, 100, 600'000}, 1)));
  const std::optional<ReadAnswer> answer = honest.expect<ReadAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->payloadLength, 100u);
  EXPECT_EQ(honest.receive(100).size(), 100u);
}

// A listening socket on the loopback that plays a peer.
class RawAcceptor {
 public:
  RawAcceptor() {
    const SocketAddress any = *socketAddress({"127.0.0.1", 0});
    socket_ = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(socket_.fd(), any.get(), any.size), 0);
    EXPECT_EQ(listen(socket_.fd(), 64), 0);
    const timeval time{std::chrono::seconds(kHang).count(), 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  }
  [[nodiscard]] PeerIdentity identity(const std::string& node) const {
    return {node, "1", {localAddress(socket_.fd())}};
  }
  [[nodiscard]] PeerAddress address() const { return localAddress(socket_.fd()); }
  RawPeer accept() {
    int fd = -1;
    do {
      fd = ::accept(socket_.fd(), nullptr, nullptr);
    } while (fd < 0 && errno == EINTR);
    return RawPeer(fd);
  }

  // Ends a waiting accept() and joins `acceptor`, the thread that waits there and looks at `ended`.
  void end(std::atomic<bool>& ended, std::thread& acceptor) const {
    ended = true;
    { const RawPeer last(address()); }
    acceptor.join();
  }

 private:
  Socket socket_;
};

}  // namespace hearth
