// Reads the JSON of a safetensors header from hostile bytes: objects, strings and arrays of
// unsigned integers, of which the format consists, and past values of any kind in members that it
// does not know. Not a door: only the room uses it.
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
  // An array of them.
  [[nodiscard]] Result<std::vector<std::uint64_t>> integers();
  // True when `null` came next, which is consumed.
  [[nodiscard]] bool acceptNull();
  // Consumes one value of any kind. Refuses what is nested more deeply than serde_json, by which
  // the format's own library reads, accepts: 128 levels with the two above the value.
  [[nodiscard]] Status skipValue();
  // Only white space is left.
  [[nodiscard]] Status end();

  [[nodiscard]] Error corrupt(std::string_view reason) const;

 private:
  void skipSpace();
  [[nodiscard]] bool acceptWord(std::string_view word);
  [[nodiscard]] Status skipNested(char close, unsigned levels);
  [[nodiscard]] Status skipValue(unsigned levels);
  [[nodiscard]] Status skipNumber();
  [[nodiscard]] Status escape(std::string& into);
  [[nodiscard]] Result<std::uint32_t> hexUnit();
  // Bytes of the UTF-8 sequence at the current byte; 0: there is none.
  [[nodiscard]] std::size_t sequenceBytes() const;

  const std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace hearth
