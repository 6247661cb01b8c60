#include "transport/handshake.h"

#include <algorithm>
#include <array>

#include "wire/authentication.h"

namespace hearth {
namespace {

constexpr auto kRefuseLinger = std::chrono::milliseconds(200);
constexpr std::size_t kRefuseLingerBytes = 1 << 20;

// A frame of the handshake, with its body as it was sent: the proofs cover those bytes.
template <class Body>
struct Greeted {
  Body body;
  std::vector<std::byte> bytes;
};

// The next frame, which must be a Body; a Refuse becomes the error that it carries.
template <class Body>
Task<Result<Greeted<Body>>> expectFrame(FrameReader& reader) {
  std::optional<Result<Frame>> frame = reader.buffered();
  while (!frame || (frame->ok() && (*frame)->header.unknown)) {
    if (!frame) {
      const Status filled = co_await reader.fill();
      if (!filled.ok()) co_return filled.error();
    }
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
  Result<Body> body = decodeBody<Body>(got.body);
  if (!body.ok()) co_return body.error();
  co_return Greeted<Body>{std::move(*body), {got.body.begin(), got.body.end()}};
}

std::span<const std::byte> bodyOf(const std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

Error otherCluster() {
  return {ErrorCode::kUnauthenticated,
          "the two agents belong to different clusters; check the address and the cluster's name"};
}

Error otherSecret() {
  return {ErrorCode::kUnauthenticated,
          "the cluster secret was not proved; give all agents of the cluster the same secret"};
}

std::string rangeOf(std::uint16_t oldest, std::uint16_t newest) {
  const std::string first = std::to_string(oldest);
  return oldest == newest ? first : first + " to " + std::to_string(newest);
}

Error noCommonVersion(std::string theirs, const WireOffer& ours) {
  return {ErrorCode::kUnsupported,
          "the two agents have no version of the wire protocol in common: " + std::move(theirs) +
              " there, " + rangeOf(ours.oldestVersion, ours.newestVersion) +
              " here; upgrade the older one, at most one release at a time"};
}

Error noCommonProof() {
  return {ErrorCode::kUnsupported,
          "the two agents have no kind of proof in common; give both the cluster secret"};
}

// The acceptor's choice among the offers of the Hello.
Result<Challenge> challengeFor(const Hello& hello, LocalIdentity self) {
  Challenge challenge{self.cluster, self.node, self.incarnation, randomNonce()};
  challenge.version = std::min(hello.newestVersion, self.offer.newestVersion);
  if (challenge.version < std::max(hello.oldestVersion, self.offer.oldestVersion)) {
    return noCommonVersion(rangeOf(hello.oldestVersion, hello.newestVersion), self.offer);
  }
  challenge.features = hello.features & self.offer.features;
  const auto offers = [&](ProofKind kind) { return (hello.proofKinds & bitOf(kind)) != 0; };
  if (!offers(ProofKind::kClusterSecret)) challenge.proofKind = ProofKind::kCapability;
  if (!offers(challenge.proofKind)) return noCommonProof();
  return challenge;
}

// Ok: the dialler offered the acceptor's choice.
Status checkChoice(const Challenge& challenge, const Hello& hello, const WireOffer& ours) {
  if (challenge.version < ours.oldestVersion || challenge.version > ours.newestVersion) {
    return noCommonVersion(std::to_string(challenge.version), ours);
  }
  if ((hello.proofKinds & bitOf(challenge.proofKind)) == 0) return noCommonProof();
  if ((challenge.features & ~hello.features) != 0) {
    return Error{ErrorCode::kProtocolError, "the other side chose features that were not offered"};
  }
  return {};
}

// The acceptor's proof, when the dialler's is right.
Result<Proof> answerToAgent(const Proof& proof, std::span<const std::byte> hello,
                            std::span<const std::byte> challenge, LocalIdentity self) {
  if (!sameProof(proof, proveSecret(ConnectionRole::kDialler, hello, challenge, self.secret)))
    return otherSecret();
  return proveSecret(ConnectionRole::kAcceptor, hello, challenge, self.secret);
}

// The same for a client. Puts its capability and who it is into `agreed`; no agent has such a name.
Result<Proof> answerToClient(const Proof& proof, std::span<const std::byte> hello,
                             std::span<const std::byte> challenge, LocalIdentity self,
                             Agreed& agreed) {
  const Result<CapabilityToken> token =
      checkCapability(proof, hello, challenge, self.cluster, self.secret);
  if (!token.ok()) return token.error();
  Result<Capability> capability = decodeCapability(token->claims);
  if (!capability.ok()) return capability.error();
  const Status taken =
      checkClient(*capability, self.node, self.diallerIsOfThisNode, self.revoked.get());
  if (!taken.ok()) return taken.error();
  agreed.client = std::make_shared<const Capability>(std::move(*capability));
  // Not the name that the client gives itself: it could have as many as it likes.
  agreed.node = "client:" + agreed.client->client.pod;
  return proveCapability(ConnectionRole::kAcceptor, hello, challenge, *token);
}

Task<Result<Agreed>> authenticateDialler(Reactor& reactor, int fd, FrameReader& reader,
                                         LocalIdentity self) {
  const Result<Greeted<Hello>> hello = co_await expectFrame<Hello>(reader);
  if (!hello.ok()) co_return hello.error();
  if (hello->body.cluster != self.cluster) co_return otherCluster();

  const Result<Challenge> challenge = challengeFor(hello->body, self);
  if (!challenge.ok()) co_return challenge.error();
  const std::vector<std::byte> challengeFrame = encodeFrame(*challenge);
  const Status sent = co_await sendAll(reactor, fd, challengeFrame);
  if (!sent.ok()) co_return sent.error();

  const Result<Greeted<Proof>> proof = co_await expectFrame<Proof>(reader);
  if (!proof.ok()) co_return proof.error();
  Agreed agreed{hello->body.node, hello->body.incarnation, challenge->version, challenge->features};
  const Result<Proof> ours =
      challenge->proofKind == ProofKind::kCapability
          ? answerToClient(proof->body, hello->bytes, bodyOf(challengeFrame), self, agreed)
          : answerToAgent(proof->body, hello->bytes, bodyOf(challengeFrame), self);
  if (!ours.ok()) co_return ours.error();
  reader.trust();
  const Status answered = co_await sendAll(reactor, fd, encodeFrame(*ours));
  if (!answered.ok()) co_return answered.error();
  co_return agreed;
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

Status checkClient(const Capability& client, std::string_view node, bool clientIsOfThisNode,
                   const RevokedTokens* revoked) {
  const auto refused = [](std::string why) {
    return Error{ErrorCode::kUnauthenticated, std::move(why)};
  };
  if (!client.isFor(node)) return refused("the client's token is for the agents of other nodes");
  if (clientIsOfThisNode && !client.isOf(node))
    return refused("the client's token is for programs of another node");
  if (revoked != nullptr && revoked->covers(client))
    return refused("the client's token was revoked");
  return {};
}

Task<Result<Agreed>> dialHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                   LocalIdentity self, Preface preface) {
  Hello hello{self.cluster, self.node, self.incarnation, randomNonce()};
  hello.oldestVersion = self.offer.oldestVersion;
  hello.newestVersion = self.offer.newestVersion;
  hello.features = self.offer.features;
  if (self.token != nullptr) hello.proofKinds = bitOf(ProofKind::kCapability);
  std::vector<std::byte> opening = encodeFrame(preface);
  const std::vector<std::byte> helloFrame = encodeFrame(hello);
  opening.insert(opening.end(), helloFrame.begin(), helloFrame.end());
  const Status sent = co_await sendAll(reactor, fd, std::move(opening));
  if (!sent.ok()) co_return sent.error();

  const Result<Greeted<Challenge>> challenge = co_await expectFrame<Challenge>(reader);
  if (!challenge.ok()) co_return challenge.error();
  if (challenge->body.cluster != self.cluster) co_return otherCluster();
  const Status chosen = checkChoice(challenge->body, hello, self.offer);
  if (!chosen.ok()) co_return chosen.error();

  const auto proofOf = [&](ConnectionRole role) {
    if (self.token != nullptr)
      return proveCapability(role, bodyOf(helloFrame), challenge->bytes, *self.token);
    return proveSecret(role, bodyOf(helloFrame), challenge->bytes, self.secret);
  };
  const Status answered =
      co_await sendAll(reactor, fd, encodeFrame(proofOf(ConnectionRole::kDialler)));
  if (!answered.ok()) co_return answered.error();

  const Result<Greeted<Proof>> proof = co_await expectFrame<Proof>(reader);
  if (!proof.ok()) co_return proof.error();
  if (!sameProof(proof->body, proofOf(ConnectionRole::kAcceptor))) co_return otherSecret();
  reader.trust();
  co_return Agreed{challenge->body.node, challenge->body.incarnation, challenge->body.version,
                   challenge->body.features};
}

Task<Result<Agreed>> acceptHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                     LocalIdentity self) {
  Result<Agreed> agreed = co_await authenticateDialler(reactor, fd, reader, self);
  // A side that has gone needs no refusal.
  if (!agreed.ok() && agreed.code() != ErrorCode::kUnavailable) {
    co_await refuse(reactor, fd, agreed.error());
  }
  co_return agreed;
}

Task<void> refuse(Reactor& reactor, int fd, Error reason) {
  const Status sent =
      co_await sendAll(reactor, fd, encodeFrame(Refuse{reason.code, reason.message}));
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
