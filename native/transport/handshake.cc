#include "transport/handshake.h"

#include <array>

#include "wire/authentication.h"

namespace hearth {
namespace {

constexpr auto kRefuseLinger = std::chrono::milliseconds(200);
constexpr std::size_t kRefuseLingerBytes = 1 << 20;

// The next frame, which must be a Body; a Refuse becomes the error that it carries.
template <class Body>
Task<Result<Body>> expectFrame(FrameReader& reader) {
  std::optional<Result<Frame>> frame = reader.buffered();
  while (!frame) {
    Task<Status> filling = reader.fill();
    const Status filled = co_await filling;
    if (!filled.ok()) co_return filled.error();
    frame = reader.buffered();
  }
  if (!frame->ok()) co_return frame->error();
  const Frame& got = frame->value();
  if (got.header.type == FrameType::kRefuse) {
    const Result<Refuse> refused = decodeBody<Refuse>(got.body);
    if (!refused.ok()) co_return refused.error();
    co_return Error{refused->code, "refused by the other side: " + refused->sentence};
  }
  if (got.header.type != Body::kType) {
    co_return Error{ErrorCode::kProtocolError, std::string("the other side sent a ") +
                                                   frameName(got.header.type) + " frame where a " +
                                                   frameName(Body::kType) + " must come"};
  }
  co_return decodeBody<Body>(got.body);
}

Error otherCluster() {
  return {ErrorCode::kUnauthenticated,
          "the two agents belong to different clusters; check the address and the cluster's name"};
}

Error otherSecret() {
  return {ErrorCode::kUnauthenticated,
          "the cluster secret was not proved; give all agents of the cluster the same secret"};
}

Task<Result<Hello>> authenticateDialler(Reactor& reactor, int fd, FrameReader& reader,
                                        LocalIdentity self) {
  Task<Result<Hello>> greeting = expectFrame<Hello>(reader);
  Result<Hello> hello = co_await greeting;
  if (!hello.ok()) co_return hello;
  if (hello->cluster != self.cluster) co_return otherCluster();

  const Challenge challenge{self.cluster, self.node, self.incarnation, randomNonce()};
  Task<Status> sending = sendAll(reactor, fd, encodeFrame(challenge));
  const Status sent = co_await sending;
  if (!sent.ok()) co_return sent.error();

  Task<Result<Proof>> proving = expectFrame<Proof>(reader);
  const Result<Proof> proof = co_await proving;
  if (!proof.ok()) co_return proof.error();
  if (!sameProof(*proof, proveSecret(ConnectionRole::kDialler, *hello, challenge, self.secret))) {
    co_return otherSecret();
  }
  const Proof ours = proveSecret(ConnectionRole::kAcceptor, *hello, challenge, self.secret);
  Task<Status> answering = sendAll(reactor, fd, encodeFrame(ours));
  const Status answered = co_await answering;
  if (!answered.ok()) co_return answered.error();
  co_return hello;
}

}  // namespace

Task<Status> sendAll(Reactor& reactor, int fd, std::vector<std::byte> bytes) {
  std::span<const std::byte> rest(bytes);
  while (!rest.empty()) {
    const std::int32_t result = co_await reactor.send(fd, rest);
    if (result <= 0) {
      Error error = errnoError(-result, "send to the other side");
      error.code = ErrorCode::kUnavailable;
      co_return error;
    }
    rest = rest.subspan(static_cast<std::size_t>(result));
  }
  co_return Status();
}

Task<Result<Challenge>> dialHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                      LocalIdentity self, Preface preface) {
  const Hello hello{self.cluster, self.node, self.incarnation, randomNonce()};
  std::vector<std::byte> opening = encodeFrame(preface);
  const std::vector<std::byte> helloFrame = encodeFrame(hello);
  opening.insert(opening.end(), helloFrame.begin(), helloFrame.end());
  Task<Status> opened = sendAll(reactor, fd, std::move(opening));
  const Status sent = co_await opened;
  if (!sent.ok()) co_return sent.error();

  Task<Result<Challenge>> challenging = expectFrame<Challenge>(reader);
  Result<Challenge> challenge = co_await challenging;
  if (!challenge.ok()) co_return challenge;
  if (challenge->cluster != self.cluster) co_return otherCluster();

  const Proof ours = proveSecret(ConnectionRole::kDialler, hello, *challenge, self.secret);
  Task<Status> answering = sendAll(reactor, fd, encodeFrame(ours));
  const Status answered = co_await answering;
  if (!answered.ok()) co_return answered.error();

  Task<Result<Proof>> proving = expectFrame<Proof>(reader);
  const Result<Proof> proof = co_await proving;
  if (!proof.ok()) co_return proof.error();
  if (!sameProof(*proof, proveSecret(ConnectionRole::kAcceptor, hello, *challenge, self.secret))) {
    co_return otherSecret();
  }
  co_return challenge;
}

Task<Result<Hello>> acceptHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                    LocalIdentity self) {
  Task<Result<Hello>> authenticating = authenticateDialler(reactor, fd, reader, self);
  Result<Hello> hello = co_await authenticating;
  // Who has gone needs no refusal.
  if (!hello.ok() && hello.code() != ErrorCode::kUnavailable) {
    Task<void> refusing = refuse(reactor, fd, hello.error());
    co_await refusing;
  }
  co_return hello;
}

Task<void> refuse(Reactor& reactor, int fd, Error reason) {
  Task<Status> sending = sendAll(reactor, fd, encodeFrame(Refuse{reason.code, reason.message}));
  const Status sent = co_await sending;
  if (!sent.ok()) co_return;
  shutdown(fd, SHUT_WR);
  Reactor::Timer timer(reactor);
  timer.start(Clock::now() + kRefuseLinger, [fd] { shutdown(fd, SHUT_RD); });
  std::array<std::byte, 4096> ignored;
  std::size_t passed = 0;
  while (passed < kRefuseLingerBytes) {
    const std::int32_t result = co_await reactor.receive(fd, ignored);
    if (result <= 0) break;
    passed += static_cast<std::size_t>(result);
  }
}

}  // namespace hearth
