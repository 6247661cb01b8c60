// The bytes of a manifest (docs/manifest-format.md): fixed little-endian structures, all fields
// naturally aligned, read in place from the mapped file. Private to this room.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth::manifest_format {

static_assert(std::endian::native == std::endian::little,
              "manifests are read in place, little-endian");

inline constexpr std::array<char, 8> kMagic = {'H', 'R', 'T', 'H', 'M', 'A', 'N', 'I'};
inline constexpr std::uint32_t kVersion = 1;
// Features of the header's words that we know.
inline constexpr std::uint64_t kKnownRequired = 0;
inline constexpr std::uint64_t kKnownOptional = 0;
// The header and the entries of later releases may be longer, by fields that we skip.
inline constexpr std::uint32_t kMaxHeaderBytes = 4096;
inline constexpr std::uint32_t kMaxEntryBytes = 4096;

// Limits of names: what Linux can open (limits.h: NAME_MAX, PATH_MAX without its NUL).
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxPathBytes = 4095;
inline constexpr std::size_t kMaxValidatorBytes = 4095;
// Sizes, offsets and their sums stay below 8 EiB, so that they also fit off_t.
inline constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 63) - 1;
inline constexpr std::uint32_t kMaxEntries = 0x7fffffff;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t headerBytes = 128;
  std::uint64_t fileBytes = 0;
  std::uint32_t entries = 0;
  std::uint32_t files = 0;
  std::uint32_t directories = 0;
  std::uint32_t symlinks = 0;
  std::uint64_t contentBytes = 0;  // sum of all files' sizes
  std::uint64_t entriesOffset = 0;
  std::uint64_t digestsOffset = 0;
  std::uint64_t digests = 0;  // count
  std::uint64_t stringsOffset = 0;
  std::uint64_t stringBytes = 0;       // without the padding after them
  std::uint64_t requiredFeatures = 0;  // who does not know one of them refuses the manifest
  std::uint64_t optionalFeatures = 0;  // others are ignored
  std::uint32_t entryBytes = 0;        // 0: 88, as the first release wrote it
  std::array<std::uint8_t, 16> reserved{};
  std::uint32_t checksum = 0;  // CRC32C of the 124 bytes before

  [[nodiscard]] bool extended() const { return (optionalFeatures & ~kKnownOptional) != 0; }
};
static_assert(sizeof(Header) == 128 && alignof(Header) == 8);
static_assert(offsetof(Header, requiredFeatures) == 88 && offsetof(Header, entryBytes) == 104);

// A string in the table: its offset there in the low 48 bits, its length in the high 16; 0 for
// none.
struct StringReference {
  std::uint64_t packed = 0;

  static StringReference of(std::uint64_t offset, std::size_t length) {
    return {length == 0 ? 0 : offset | (std::uint64_t{length} << 48)};
  }
  [[nodiscard]] std::uint64_t offset() const { return packed & ((std::uint64_t{1} << 48) - 1); }
  [[nodiscard]] std::uint64_t length() const { return packed >> 48; }
};

inline constexpr std::uint8_t kExecutable = 1;

struct Entry {
  StringReference name;
  StringReference text;  // files: validator; symlinks: target
  // Files: size. Directories: first child in the low, number of children in the high 32 bits.
  std::uint64_t sizeOrChildren = 0;
  std::uint64_t objectOffset = 0;
  std::int64_t modifiedNs = 0;
  std::uint32_t parent = 0;
  std::uint32_t digest = 0;  // 1 + index in the digest table; 0: none
  std::uint8_t kind = 0;
  std::uint8_t flags = 0;
  std::array<std::uint8_t, 6> reserved{};
  std::array<std::uint8_t, 32> key{};
};
static_assert(sizeof(Entry) == 88 && alignof(Entry) == 8);

inline constexpr std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + 7) & ~std::uint64_t{7};
}

// A mapped or copied manifest cut into its parts. Pointers are aligned and `header`'s counts lie
// inside.
struct Parts {
  const Header* header = nullptr;
  const std::byte* entries = nullptr;
  std::uint32_t entryBytes = sizeof(Entry);  // from one to the next
  const std::array<std::uint8_t, 32>* digests = nullptr;
  const char* strings = nullptr;

  // `index` < header->entries.
  [[nodiscard]] const Entry& entry(std::uint32_t index) const {
    return *reinterpret_cast<const Entry*>(entries + std::uint64_t{index} * entryBytes);
  }
  [[nodiscard]] bool holds(StringReference reference) const {
    return reference.offset() <= header->stringBytes &&
           reference.length() <= header->stringBytes - reference.offset();
  }
  // Empty when the reference lies outside.
  [[nodiscard]] std::string_view text(StringReference reference) const {
    if (!holds(reference)) return {};
    return {strings + reference.offset(), static_cast<std::size_t>(reference.length())};
  }
};

}  // namespace hearth::manifest_format
