// How two agents prove to each other that they know the cluster's secret without sending it: each
// sends HMAC-SHA-256 (RFC 2104) keyed by the secret over
//
//   "hearth wire 2 dialler" or "hearth wire 2 acceptor", a zero byte, the length of the Hello's
//   body (u32), the body of the Hello, the body of the Challenge
//
// as they were sent, with all optional fields, so that a later release's Hello is proved whole by
// an earlier one. The bodies hold the cluster, both node names, both incarnations, both nonces, and
// the versions and features that were offered and chosen: none between can make two sides use less
// than they could. No two conversations have the same input. The roles differ, so that a proof
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

// `hello` and `challenge`: the bodies of these frames.
[[nodiscard]] Proof proveSecret(ConnectionRole role, std::span<const std::byte> hello,
                                std::span<const std::byte> challenge,
                                std::span<const std::byte> secret);

// Takes the same time whatever the first difference is.
[[nodiscard]] bool sameProof(const Proof& a, const Proof& b);

// From the kernel's random number generator.
[[nodiscard]] Nonce randomNonce();

}  // namespace hearth
