// A capability token: which datasets of a cluster a client may use, in which ways and until when.
// An agent that knows the cluster's secret makes it and checks it; a client that holds it knows
// neither the secret nor the key of another token:
//
//   key   = HMAC-SHA-256(secret, "hearth capability 1" || zero byte || claims)
//   proof = HMAC-SHA-256(key, role || zero byte || length of the Hello's body (u32) || the bodies
//   of
//           Hello and Challenge), with the roles "hearth wire 2 client" and "hearth wire 2 agent"
//
// The dialler's Proof carries its proof and the claims, the acceptor's carries its proof: the key
// never crosses the network, and a client knows that it speaks to an agent of the cluster.
//
//   claims: u8 1, text cluster, text node, u64 expiresAtMs, u32 rights, u16 number of datasets, the
//   datasets as texts; optional fields (base/optional_fields.h): 1 text namespace, 2 text pod,
//   3 nodes (u16 number, texts). Texts as in base/byte_codec.h.
//
// As text a token is "hearth-token-1." claims "." key, both in base64url without padding. Pure: any
// thread. Decoders take bytes of unauthenticated clients.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/authentication.h"

namespace hearth {

enum class CapabilityRight : std::uint32_t {
  kRead = 1u << 0,
  kAdvise = 1u << 1,         // WILLNEED and DONTNEED for one node
  kAdviseCluster = 1u << 2,  // the same for all nodes
  kWrite = 1u << 3,          // of volumes: makes files and folders, and writes files
  kDelete = 1u << 4,         // of volumes: removes files
};

// In place of a name in Capability::datasets: all datasets of the cluster.
inline constexpr std::string_view kAnyDataset = "*";
// In front of the name of a volume in Capability::datasets; "volume:*": all volumes of the cluster.
inline constexpr std::string_view kVolumeGrant = "volume:";
inline constexpr std::size_t kMaxCapabilityBytes = 4096;

// Whose limits a client's use counts against. Tokens that a pod gets one after the other have the
// same; those of no pod, all that grant the same.
struct ClientIdentity {
  std::string space;  // the namespace
  std::string pod;    // unlike those of other namespaces
  bool operator==(const ClientIdentity&) const = default;
};

struct Capability {
  std::string cluster;
  std::string node;                   // whose agent alone takes it; empty: any
  std::uint64_t expiresAtMs = 0;      // since the epoch
  std::uint32_t rights = 0;           // CapabilityRight bits; bits that are not known grant nothing
  std::vector<std::string> datasets;  // and volumes, each behind kVolumeGrant
  std::string podNamespace = {}, pod = {};  // whose token it is; empty: of no pod
  // Whose agents alone take it, the node of its programs first; empty: any, for programs of any.
  std::vector<std::string> nodes = {};
  // Of what was decoded: who uses it, and SHA-256 of the claims in hexadecimal digits.
  ClientIdentity client = {};
  std::string id = {};
  bool operator==(const Capability&) const = default;

  [[nodiscard]] bool grants(CapabilityRight right, std::string_view dataset) const;
  // The same of a volume, by its name. "*" is no volume.
  [[nodiscard]] bool grantsVolume(CapabilityRight right, std::string_view volume) const;
  // The agent of that node takes it.
  [[nodiscard]] bool isFor(std::string_view agentNode) const;
  // Programs of that node may use it.
  [[nodiscard]] bool isOf(std::string_view programNode) const;
  [[nodiscard]] bool expired() const;  // by the wall clock
};

// kInvalidArgument when the claims have more than kMaxCapabilityBytes.
[[nodiscard]] Result<std::vector<std::byte>> encodeCapability(const Capability& capability);
// kInvalidArgument for what encodeCapability() does not make.
[[nodiscard]] Result<Capability> decodeCapability(std::span<const std::byte> claims);

struct CapabilityToken {
  std::vector<std::byte> claims;
  Sha256Digest key{};  // a secret
};
[[nodiscard]] Result<CapabilityToken> signCapability(const Capability& capability,
                                                     std::span<const std::byte> secret);
[[nodiscard]] std::string textOf(const CapabilityToken& token);
// Blanks around the token are passed over. The key is not checked: only agents can.
[[nodiscard]] Result<CapabilityToken> parseCapabilityToken(std::string_view text);

// The Proof of a client, and of the agent that answers it. `hello` and `challenge`: bodies.
[[nodiscard]] Proof proveCapability(ConnectionRole role, std::span<const std::byte> hello,
                                    std::span<const std::byte> challenge,
                                    const CapabilityToken& token);
// The token with which a client has made `proof`. kUnauthenticated: forged, of another cluster, or
// expired.
[[nodiscard]] Result<CapabilityToken> checkCapability(const Proof& proof,
                                                      std::span<const std::byte> hello,
                                                      std::span<const std::byte> challenge,
                                                      std::string_view cluster,
                                                      std::span<const std::byte> secret);

}  // namespace hearth
