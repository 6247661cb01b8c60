// The beginning of a connection: Preface, Hello, Challenge and a Proof from each side
// (docs/wire-protocol.md). The handshake has no deadline of its own: the caller shuts the socket
// down when its timeout ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "reactor/reactor.h"
#include "transport/frame_reader.h"
#include "wire/capability.h"
#include "wire/frame.h"
#include "wire/revoked_tokens.h"

namespace hearth {

// Our own identity. The references must outlive the handshake.
struct LocalIdentity {
  const std::string& cluster;
  const std::string& node;
  const std::string& incarnation;
  std::span<const std::byte> secret;
  const WireOffer& offer;
  const CapabilityToken* token = nullptr;  // a dialling client proves its token, not the secret
  // Of an acceptor: tokens to refuse; null: none.
  std::shared_ptr<const RevokedTokens> revoked = nullptr;
  bool diallerIsOfThisNode = false;
};

// The identity of the other side, and the terms on which both sides agree.
struct Agreed {
  std::string node, incarnation;
  std::uint16_t version = kWireVersion;
  std::uint64_t features = 0;
  std::shared_ptr<const Capability> client =
      nullptr;                                  // proved by the dialler; null: it is an agent
  std::shared_ptr<const void> share = nullptr;  // of what clients share, while the connection lives
};

// Plays the dialler on a connected socket. Returns the side that answered, after both have proved
// the secret or the token; the reader trusts it then. kUnauthenticated: another cluster or secret,
// here or there; kUnsupported: no version or kind of proof that both have; kProtocolError: not an
// agent; kUnavailable: closed, or refused because it is busy.
[[nodiscard]] Task<Result<Agreed>> dialHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                                 LocalIdentity self, Preface preface);

// kUnauthenticated unless the agent of the node takes the client's token. `clientIsOfThisNode`: the
// client runs there. `revoked` may be null.
[[nodiscard]] Status checkClient(const Capability& client, std::string_view node,
                                 bool clientIsOfThisNode, const RevokedTokens* revoked);

// Plays the acceptor, after the preface. Sends a Refuse to a side that fails. The same codes.
[[nodiscard]] Task<Result<Agreed>> acceptHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                                   LocalIdentity self);

// Sends a Refuse and ends our direction; then passes over what the other side still sends, for a
// moment: closing a socket with unread bytes resets it, and the Refuse would be lost.
[[nodiscard]] Task<void> refuse(Reactor& reactor, int fd, Error reason);

// Sends all of `bytes`, or returns kUnavailable.
[[nodiscard]] Task<Status> sendAll(Reactor& reactor, int fd, std::vector<std::byte> bytes);

}  // namespace hearth
