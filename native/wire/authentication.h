// How two agents prove to each other that they know the cluster's secret without sending it: each
// sends HMAC-SHA-256 (RFC 2104) keyed by the secret over
//
//   "hearth wire 1 dialler" or "hearth wire 1 acceptor", a zero byte,
//   the body of the Hello, the body of the Challenge
//
// The bodies hold the cluster, both node names, both incarnations and both nonces, and begin with
// their own lengths, so no two conversations have the same input. The roles differ, so that a proof
// cannot be sent back to its maker. The connection itself is not encrypted: the network between
// agents is trusted with the bytes that they exchange, not with who may ask for them. Pure: any
// thread.
#pragma once

#include <cstddef>
#include <span>

#include "base/sha256.h"
#include "wire/frame.h"

namespace hearth {

enum class ConnectionRole { kDialler, kAcceptor };

[[nodiscard]] Proof proveSecret(ConnectionRole role, const Hello& hello, const Challenge& challenge,
                                std::span<const std::byte> secret);

// Takes the same time whatever the first difference is.
[[nodiscard]] bool sameProof(const Proof& a, const Proof& b);

// From the kernel's random number generator.
[[nodiscard]] Nonce randomNonce();

}  // namespace hearth
