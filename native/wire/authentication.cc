#include "wire/authentication.h"

#include <sys/random.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/byte_codec.h"

namespace hearth {

Proof proveSecret(ConnectionRole role, std::span<const std::byte> hello,
                  std::span<const std::byte> challenge, std::span<const std::byte> secret) {
  const std::string_view label =
      role == ConnectionRole::kDialler ? "hearth wire 2 dialler" : "hearth wire 2 acceptor";
  std::vector<std::byte> input;
  ByteWriter out(input);
  out.bytes(std::as_bytes(std::span(label)));
  out.u8(0);
  out.u32(static_cast<std::uint32_t>(hello.size()));
  out.bytes(hello);
  out.bytes(challenge);
  const Sha256Digest code = Sha256::hmac(secret, input);
  const auto bytes = std::as_bytes(std::span(code));
  return Proof{ProofKind::kClusterSecret, {bytes.begin(), bytes.end()}};
}

bool sameProof(const Proof& a, const Proof& b) {
  if (a.kind != b.kind || a.bytes.size() != b.bytes.size()) return false;
  // volatile: the compiler may not stop at the first difference.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    difference =
        static_cast<std::uint8_t>(difference | static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]));
  }
  return difference == 0;
}

Nonce randomNonce() {
  Nonce nonce;
  // Up to 256 bytes are never cut short (getrandom(2)); without randomness nothing here is safe.
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) std::abort();
  return nonce;
}

}  // namespace hearth
