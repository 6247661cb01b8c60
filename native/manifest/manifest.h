// A manifest: the immutable list of one revision, named by the SHA-256 of its own bytes. Binary,
// little-endian, deterministic (same rows, same bytes) and mapped, never loaded: opening one of ten
// million entries costs the header. docs/manifest-format.md describes the bytes.
// Immutable: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"
#include "base/sha256.h"

namespace hearth {

enum class EntryKind : std::uint8_t { kFile = 0, kDirectory = 1, kSymlink = 2 };

inline constexpr std::uint32_t kRootEntry = 0;

// One entry; the string views live as long as the Manifest.
struct ManifestEntry {
  std::uint32_t index = 0;
  std::uint32_t parent = 0;  // of the root: itself
  EntryKind kind = EntryKind::kFile;
  bool executable = false;
  std::uint64_t size = 0;          // files
  std::uint64_t objectOffset = 0;  // files: where they begin in the origin's object
  ContentKey key;                  // files
  std::optional<Sha256Digest> sourceDigest;
  std::int64_t modifiedNs = 0;
  std::string_view name;
  std::string_view symlinkTarget;
  std::string_view validator;
  // Directories: children are the entries [firstChild, firstChild + childCount), sorted by name
  // bytes.
  std::uint32_t firstChild = 0;
  std::uint32_t childCount = 0;
};

struct ManifestTotals {
  std::uint32_t entries = 0, files = 0, directories = 0, symlinks = 0;
  std::uint64_t bytes = 0;
};

class Manifest {
 public:
  // Maps the file. With `expected` (a manifest from elsewhere) its digest and every invariant of
  // every entry are checked, kCorrupt otherwise. Without (a file of ours that was checked when it
  // came) only the header is, whatever the number of entries; a file damaged since then gives wrong
  // answers, never a read out of bounds or an endless loop. Blocks on the disk. The file must not
  // shrink while it is mapped.
  [[nodiscard]] static Result<std::shared_ptr<const Manifest>> open(
      const std::string& path, const std::optional<Sha256Digest>& expected);
  // Over bytes in memory, which are copied. Every invariant is checked; the digest is the caller's
  // to compare.
  [[nodiscard]] static Result<std::shared_ptr<const Manifest>> parse(
      std::span<const std::byte> bytes);
  virtual ~Manifest() = default;

  [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;
  // Computed when first asked for (reads all bytes), unless open() compared it already.
  [[nodiscard]] virtual const Sha256Digest& digest() const = 0;
  [[nodiscard]] virtual ManifestTotals totals() const = 0;
  // `index` < totals().entries.
  [[nodiscard]] virtual ManifestEntry entry(std::uint32_t index) const = 0;
  // Binary search among the children of a directory.
  [[nodiscard]] virtual std::optional<std::uint32_t> find(std::uint32_t directory,
                                                          std::string_view name) const = 0;
  // "a/b/c", "" is the root; nothing when absent.
  [[nodiscard]] virtual std::optional<std::uint32_t> lookUp(std::string_view path) const = 0;
  [[nodiscard]] virtual std::string path(std::uint32_t index) const = 0;
};

struct ManifestRow {
  std::string path;
  EntryKind kind = EntryKind::kFile;
  bool executable = false;
  std::uint64_t size = 0;
  std::uint64_t objectOffset = 0;
  ContentKey key;
  std::optional<Sha256Digest> sourceDigest;
  std::int64_t modifiedNs = 0;
  std::string symlinkTarget;
  std::string validator;
};

// One thread at a time.
class ManifestBuilder {
 public:
  explicit ManifestBuilder(bool skipUnusable);
  ~ManifestBuilder();

  // Rows in any order; directories that only hold other rows need none of their own. Refuses (or
  // skips) names that cannot be used: not UTF-8, NUL, "", ".", "..", absolute, empty parts, parts
  // over 255 bytes, paths over 4095 bytes. Of a path named twice no row is kept (a directory
  // stays), of a file that is also a directory of other rows the directory is: what is skipped does
  // not depend on the order of rows.
  void add(ManifestRow row);
  // The first ten refused, as "path: reason" with unprintable bytes escaped.
  [[nodiscard]] const std::vector<std::string>& unusable() const;
  [[nodiscard]] std::uint64_t unusableCount() const;
  // The manifest's bytes, the same for the same rows in any order; the builder is spent.
  // kInvalidArgument naming the first ten unusable names unless they are skipped.
  [[nodiscard]] Result<std::vector<std::byte>> build();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hearth
