// SHA-256 (FIPS 180-4) by OpenSSL's EVP interface, incremental. One thread at a time per object.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace hearth {

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> data);
  // The digest of all bytes so far; the object starts again from nothing.
  [[nodiscard]] Sha256Digest finish();

  [[nodiscard]] static Sha256Digest of(std::span<const std::byte> data);
  // HMAC-SHA-256 (RFC 2104).
  [[nodiscard]] static Sha256Digest hmac(std::span<const std::byte> key,
                                         std::span<const std::byte> data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth
