#include "wire/authentication.h"

#include <sys/random.h>

#include <cstdlib>
#include <string_view>
#include <vector>

namespace hearth {

Proof proveSecret(ConnectionRole role, const Hello& hello, const Challenge& challenge,
                  std::span<const std::byte> secret) {
  const std::string_view label =
      role == ConnectionRole::kDialler ? "hearth wire 1 dialler" : "hearth wire 1 acceptor";
  const auto labelBytes = std::as_bytes(std::span(label));
  std::vector<std::byte> input(labelBytes.begin(), labelBytes.end());
  input.push_back(std::byte{0});
  const auto append = [&input](const std::vector<std::byte>& frame) {
    input.insert(input.end(), frame.begin() + kFrameHeaderBytes, frame.end());
  };
  append(encodeFrame(hello));
  append(encodeFrame(challenge));
  return Proof{Sha256::hmac(secret, input)};
}

bool sameProof(const Proof& a, const Proof& b) {
  // volatile: the compiler may not stop at the first difference.
  volatile std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.code.size(); ++i) {
    difference = static_cast<std::uint8_t>(difference | (a.code[i] ^ b.code[i]));
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
