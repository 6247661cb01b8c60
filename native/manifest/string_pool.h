// Strings of a manifest being built, each kept once. Private to this room. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "manifest/format.h"

namespace hearth {

class StringPool {
 public:
  // Position of a string in the pool; kNone is the empty string.
  using Id = std::uint32_t;
  static constexpr Id kNone = 0;

  StringPool();

  [[nodiscard]] Id intern(std::string_view text);
  [[nodiscard]] std::string_view text(Id id) const {
    return {records_[id].bytes, records_[id].length};
  }

  // The string's place in the table that is being laid out, in the order of first calls.
  [[nodiscard]] manifest_format::StringReference place(Id id);
  [[nodiscard]] std::uint64_t placedBytes() const { return placedBytes_; }
  // Writes all placed strings to `into`, which has placedBytes() bytes.
  void write(char* into) const;

 private:
  static constexpr std::uint64_t kUnplaced = ~std::uint64_t{0};
  struct Record {
    const char* bytes;
    std::uint32_t length;
    std::uint32_t hash;
    std::uint64_t placed;
  };

  const char* keep(std::string_view text);
  void grow();

  std::deque<Record> records_;  // no moves of what may be hundreds of megabytes
  std::vector<Id> table_;       // open addressing, a power of two, at most 2/3 full
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t blockLeft_ = 0;
  char* blockNext_ = nullptr;
  std::uint64_t placedBytes_ = 0;
};

}  // namespace hearth
