// How the body of a holder message is made: fields of tag u16, length u32 and bytes, in any order.
// A reader skips tags that it does not know, unless kHolderRequiredTag is set in them. Numbers are
// little-endian, 1 to 8 bytes long; what is absent is zero or empty. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

// Set in the tag of a field that must not be skipped: who does not know it cannot do what is asked.
inline constexpr std::uint16_t kHolderRequiredTag = 0x8000;

// Never given another meaning; one that is no longer used stays in this list.
enum class HolderField : std::uint16_t {
  kOwner = 1,
  kTarget = 2,
  kSource = 3,
  kOption = 4,  // may come many times
  kFlags = 5,
  kReadAheadKiB = 6,
  kBlob = 7,
  kState = 8,
  kForce = 9,
  kContinues = 10,
  kEpoch = 11,
  kMinor = 12,
  kName = 13,
  kBytes = 14,
  kGeneration = 15,
  kBackingId = 16,
  kPosition = 17,
  kOldestVersion = 18,
  kNewestVersion = 19,
  kFeatures = 20,  // words of 64 bits
  kRelease = 21,
  kInstance = 22,
  kCode = 23,
  kMessage = 24,
  kCount = 25,
  kMount = 26,   // fields of a HolderRecord
  kMemory = 27,  // fields of a HolderMemory
  kAttached = 28,
  kAborted = 29,
  kAbsentSeconds = 30,
  kUsersGone = 31,
  kTouchBytes = 32,
  kOffset = 33,
  kTouched = 34,
  kHugeBytes = 35,
  kFolder = 36,
  kNoHugePages = 37,
};

class HolderFieldWriter {
 public:
  // Zero, false and empty are left out.
  void number(HolderField field, std::uint64_t value);
  void text(HolderField field, std::string_view value);
  void words(HolderField field, std::span<const std::uint64_t> values);
  // Written even when `fields` is empty: that it is there says something.
  void nested(HolderField field, const HolderFieldWriter& fields);
  void append(const HolderFieldWriter& fields);
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void put(HolderField field, std::span<const std::byte> value);

  std::vector<std::byte> bytes_;
};

struct HolderFieldValue {
  std::uint16_t tag = 0;
  std::span<const std::byte> value;  // of the message that is read

  [[nodiscard]] HolderField field() const { return static_cast<HolderField>(tag); }
  [[nodiscard]] bool required() const { return (tag & kHolderRequiredTag) != 0; }
  [[nodiscard]] std::string text() const;
  // Nothing when it is not 1 to 8 bytes long.
  [[nodiscard]] std::optional<std::uint64_t> number() const;
  // Ignores further words, which a newer side may send.
  void words(std::span<std::uint64_t> into) const;
};

class HolderFieldReader {
 public:
  // `body` outlives the reader and what it gives.
  explicit HolderFieldReader(std::span<const std::byte> body) : left_(body) {}
  // The next field; nothing at the end, or where the body is cut off: then whole() is false.
  [[nodiscard]] std::optional<HolderFieldValue> next();
  [[nodiscard]] bool whole() const { return whole_; }

 private:
  std::span<const std::byte> left_;
  bool whole_ = true;
};

}  // namespace hearth
