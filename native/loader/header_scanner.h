// Reads the JSON of a safetensors header from hostile bytes: only objects, arrays of numbers,
// strings and unsigned integers, as the format has no others. Not a door: only the room uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth {

// One thread at a time. Every function skips white space first and fails with kCorrupt, naming the
// byte where the header is not as expected; after an error the scanner is of no further use.
class HeaderScanner {
 public:
  // `text` must outlive the scanner.
  explicit HeaderScanner(std::string_view text) : text_(text) {}

  // The next byte is `token`, which is consumed.
  [[nodiscard]] bool accept(char token);
  [[nodiscard]] Status expect(char token);
  // After a member of an object or an array that ends with `close`: true when another one follows,
  // false when `close` was consumed.
  [[nodiscard]] Result<bool> another(char close);
  // Escapes are decoded. Refuses control characters and all that is not UTF-8 (RFC 3629).
  [[nodiscard]] Result<std::string> string();
  // At most 2^64 - 1, without a sign, a fraction, an exponent or leading zeros.
  [[nodiscard]] Result<std::uint64_t> integer();
  // At most `most` integers.
  [[nodiscard]] Result<std::vector<std::uint64_t>> integers(std::size_t most);
  // Only white space is left.
  [[nodiscard]] Status end();

  [[nodiscard]] Error corrupt(std::string_view reason) const;

 private:
  void skipSpace();
  [[nodiscard]] Status escape(std::string& into);
  [[nodiscard]] Result<std::uint32_t> hexUnit();
  // Bytes of the UTF-8 sequence at the current byte; 0: there is none.
  [[nodiscard]] std::size_t sequenceBytes() const;

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace hearth
