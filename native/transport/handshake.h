// How a connection begins: Preface, Hello, Challenge and a Proof from each side
// (docs/wire-protocol.md). Has no deadline of its own: the caller shuts the socket down when its
// timeout ends.
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

namespace hearth {

// Who we are. References to what outlives the handshake.
struct LocalIdentity {
  const std::string& cluster;
  const std::string& node;
  const std::string& incarnation;
  std::span<const std::byte> secret;
  const WireOffer& offer;
  const CapabilityToken* token = nullptr;  // of a dialling client, which proves it, not the secret
};

// Who is at the other side, and what both sides can do.
struct Agreed {
  std::string node, incarnation;
  std::uint16_t version = kWireVersion;
  std::uint64_t features = 0;
  std::shared_ptr<const Capability> client =
      nullptr;  // that the dialler has proved; null: an agent
};

// As the dialler, with a connected socket: who answered, after both have proved the secret, or the
// token; the reader trusts it then.
// kUnauthenticated: another cluster or secret, here or there; kUnsupported: no version or kind of
// proof that both have;
// kProtocolError: not an agent; kUnavailable: closed, or refused because it is busy.
[[nodiscard]] Task<Result<Agreed>> dialHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                                 LocalIdentity self, Preface preface);

// As the acceptor, after the preface. A side that fails is sent a Refuse. The same codes.
[[nodiscard]] Task<Result<Agreed>> acceptHandshake(Reactor& reactor, int fd, FrameReader& reader,
                                                   LocalIdentity self);

// Sends a Refuse and ends our direction; then passes over what the other side still sends, for a
// moment: closing a socket with unread bytes resets it, and the Refuse would be lost.
[[nodiscard]] Task<void> refuse(Reactor& reactor, int fd, Error reason);

// All of `bytes`, or kUnavailable.
[[nodiscard]] Task<Status> sendAll(Reactor& reactor, int fd, std::vector<std::byte> bytes);

}  // namespace hearth
