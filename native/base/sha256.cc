#include "base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace hearth {
namespace {

// EVP_sha256() is looked up among the providers at every use (crypto(7) advises to fetch it once).
const EVP_MD* algorithm() {
  static const EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return fetched;
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() { restart(); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void restart() { EVP_DigestInit_ex(context, algorithm(), nullptr); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(state_->context, data.data(), data.size());
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  state_->restart();
  return digest;
}

Sha256Digest Sha256::of(std::span<const std::byte> data) {
  Sha256Digest digest{};
  EVP_Digest(data.data(), data.size(), digest.data(), nullptr, algorithm(), nullptr);
  return digest;
}

Sha256Digest Sha256::hmac(std::span<const std::byte> key, std::span<const std::byte> data) {
  Sha256Digest digest{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest.data(), &length);
  return digest;
}

}  // namespace hearth
