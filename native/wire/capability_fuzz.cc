// Tokens as users give them and claims as unauthenticated clients send them: neither crashes a
// decoder, whatever is accepted means the same when it is written and read again, and no claims
// are taken that the secret has not signed.
#include <cstdlib>

#include "wire/capability.h"

namespace {

using namespace hearth;

void require(bool holds) {
  if (!holds) std::abort();
}

void tryText(std::string_view text) {
  const Result<CapabilityToken> token = parseCapabilityToken(text);
  if (!token.ok()) return;
  const Result<CapabilityToken> again = parseCapabilityToken(textOf(*token));
  require(again.ok() && again->claims == token->claims && again->key == token->key);
}

void tryClaims(std::span<const std::byte> claims) {
  const Result<Capability> capability = decodeCapability(claims);
  if (!capability.ok()) return;
  const Result<std::vector<std::byte>> encoded = encodeCapability(*capability);
  require(encoded.ok());
  Result<Capability> again = decodeCapability(*encoded);
  require(again.ok());
  again->id = capability->id;  // of all bytes, also of fields that later releases write
  require(*again == *capability);
  static_cast<void>(capability->grants(CapabilityRight::kRead, "llm"));
  static_cast<void>(capability->expired());
}

// A client that does not know the secret: its proof is made with a key of its own.
void tryForgery(std::span<const std::byte> claims) {
  const std::vector<std::byte> secret(32, std::byte{7}), hello(16), challenge(32);
  const CapabilityToken forged{{claims.begin(), claims.end()}, {}};
  const Proof proof = proveCapability(ConnectionRole::kDialler, hello, challenge, forged);
  require(!checkCapability(proof, hello, challenge, "test", secret).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const auto bytes = std::as_bytes(rest);
  const std::string text(rest.begin(), rest.end());
  switch (data[0] % 4) {
    case 0:
      tryText(text);
      break;
    case 1:
      tryText("hearth-token-1." + text);
      break;
    case 2:
      tryClaims(bytes);
      break;
    default:
      tryForgery(bytes);
  }
  return 0;
}
