#include "manifest/manifest.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "manifest/names.h"
#include "manifest/validation.h"

namespace hearth {
namespace {

using manifest_format::Entry;
using manifest_format::Parts;

// The memory of a manifest: a private mapping of a file, or a copy.
class Memory {
 public:
  static Result<Memory> map(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errnoError(errno, "open manifest " + escaped(path));
    struct stat info {};
    Memory memory;
    const int failed = fstat(fd, &info) != 0 ? errno : 0;
    // An empty file cannot be mapped; it stays an empty span and is refused as too short.
    if (failed == 0 && info.st_size > 0) {
      const auto size = static_cast<std::size_t>(info.st_size);
      void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
      if (address == MAP_FAILED) {
        const int error = errno;
        ::close(fd);
        return errnoError(error, "map manifest " + escaped(path));
      }
      memory.mapped_ = {static_cast<const std::byte*>(address), size};
    }
    ::close(fd);
    if (failed != 0) return errnoError(failed, "inspect manifest " + escaped(path));
    return memory;
  }

  static Memory copy(std::span<const std::byte> bytes) {
    Memory memory;
    memory.words_.resize(bytes.size() / 8 + 1);
    memory.copied_ = bytes.size();
    if (!bytes.empty()) std::memcpy(memory.words_.data(), bytes.data(), bytes.size());
    return memory;
  }

  Memory(Memory&& other) noexcept
      : mapped_(std::exchange(other.mapped_, {})),
        words_(std::move(other.words_)),
        copied_(other.copied_) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (!mapped_.empty()) munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
  }

  [[nodiscard]] std::span<const std::byte> bytes() const {
    if (!mapped_.empty()) return mapped_;
    return std::as_bytes(std::span(words_)).first(copied_);
  }

 private:
  Memory() = default;
  std::span<const std::byte> mapped_;
  std::vector<std::uint64_t> words_;  // eight-byte aligned
  std::size_t copied_ = 0;
};

// Accessors check bounds themselves: a file of ours that was opened without the full check may have
// been damaged since, and must then give wrong answers at worst.
class ManifestImage final : public Manifest {
 public:
  ManifestImage(Memory memory, Parts parts) : memory_(std::move(memory)), parts_(parts) {}

  std::span<const std::byte> bytes() const override { return memory_.bytes(); }

  const Sha256Digest& digest() const override {
    std::call_once(digestOnce_, [this] { digest_ = Sha256::of(memory_.bytes()); });
    return digest_;
  }

  ManifestTotals totals() const override {
    const manifest_format::Header& header = *parts_.header;
    return {.entries = header.entries,
            .files = header.files,
            .directories = header.directories,
            .symlinks = header.symlinks,
            .bytes = header.contentBytes};
  }

  ManifestEntry entry(std::uint32_t index) const override {
    ManifestEntry out;
    out.index = index;
    if (index >= parts_.header->entries) return out;
    const Entry& raw = parts_.entry(index);
    out.parent = raw.parent < index ? raw.parent : kRootEntry;
    out.modifiedNs = raw.modifiedNs;
    out.name = parts_.text(raw.name);
    switch (static_cast<EntryKind>(raw.kind)) {
      case EntryKind::kDirectory: {
        out.kind = EntryKind::kDirectory;
        const Children children = childrenOf(index);
        out.firstChild = children.first;
        out.childCount = children.count;
        break;
      }
      case EntryKind::kSymlink:
        out.kind = EntryKind::kSymlink;
        out.symlinkTarget = parts_.text(raw.text);
        break;
      case EntryKind::kFile:
      default:
        out.executable = (raw.flags & manifest_format::kExecutable) != 0;
        out.size = raw.sizeOrChildren;
        out.objectOffset = raw.objectOffset;
        out.key.bytes = raw.key;
        out.validator = parts_.text(raw.text);
        if (raw.digest != 0 && raw.digest <= parts_.header->digests) {
          out.sourceDigest = parts_.digests[raw.digest - 1];
        }
    }
    return out;
  }

  std::optional<std::uint32_t> find(std::uint32_t directory, std::string_view name) const override {
    const Children children = childrenOf(directory);
    std::uint32_t low = children.first;
    std::uint32_t high = children.first + children.count;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      const int order = parts_.text(parts_.entry(middle).name).compare(name);
      if (order == 0) return middle;
      if (order < 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return std::nullopt;
  }

  std::optional<std::uint32_t> lookUp(std::string_view path) const override {
    std::uint32_t index = kRootEntry;
    while (!path.empty()) {
      const std::size_t slash = path.find('/');
      const auto child = find(index, path.substr(0, slash));
      if (!child) return std::nullopt;
      index = *child;
      if (slash == path.npos) break;
      path.remove_prefix(slash + 1);
      if (path.empty()) return std::nullopt;
    }
    return index;
  }

  std::string path(std::uint32_t index) const override {
    if (index >= parts_.header->entries) return {};
    // Parents have smaller indexes, so both walks end; the second fills the string from its end.
    std::size_t length = 0;
    for (std::uint32_t at = index; at != kRootEntry; at = parentOf(at)) {
      length += parts_.entry(at).name.length() + 1;
      if (length > manifest_format::kMaxPathBytes + 1) return {};
    }
    if (length == 0) return {};
    std::string out(length - 1, '/');
    for (std::uint32_t at = index; at != kRootEntry; at = parentOf(at)) {
      const std::string_view name = parts_.text(parts_.entry(at).name);
      length -= parts_.entry(at).name.length() + 1;
      name.copy(out.data() + length, name.size());
    }
    return out;
  }

 private:
  struct Children {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  // None unless the range lies behind the directory and inside the table.
  Children childrenOf(std::uint32_t index) const {
    if (index >= parts_.header->entries) return {};
    const Entry& raw = parts_.entry(index);
    if (raw.kind != static_cast<std::uint8_t>(EntryKind::kDirectory)) return {};
    const auto first = static_cast<std::uint32_t>(raw.sizeOrChildren);
    const auto count = static_cast<std::uint32_t>(raw.sizeOrChildren >> 32);
    if (first <= index || std::uint64_t{first} + count > parts_.header->entries) return {};
    return {first, count};
  }

  std::uint32_t parentOf(std::uint32_t index) const {
    const std::uint32_t parent = parts_.entry(index).parent;
    return parent < index ? parent : kRootEntry;
  }

  const Memory memory_;
  const Parts parts_;
  mutable std::once_flag digestOnce_;
  mutable Sha256Digest digest_{};
};

}  // namespace

Result<std::shared_ptr<const Manifest>> Manifest::open(
    const std::string& path, const std::optional<Sha256Digest>& expected) {
  auto memory = Memory::map(path);
  if (!memory.ok()) return memory.error();
  const auto parts = manifest_format::checkHeader(memory->bytes());
  if (!parts.ok()) return parts.error().within(escaped(path));
  // Moving the memory keeps its address.
  auto manifest = std::make_shared<const ManifestImage>(std::move(*memory), *parts);
  if (expected) {
    if (manifest->digest() != *expected) {
      return Error{ErrorCode::kCorrupt, escaped(path) + ": the manifest has the digest " +
                                            hexOf(manifest->digest()) + " and not " +
                                            hexOf(*expected) +
                                            "; remove it and let it be fetched or listed again"};
    }
    const Status checked = manifest_format::checkEntries(*parts);
    if (!checked.ok()) return checked.error().within(escaped(path));
  }
  return std::shared_ptr<const Manifest>(std::move(manifest));
}

Result<std::shared_ptr<const Manifest>> Manifest::parse(std::span<const std::byte> bytes) {
  Memory memory = Memory::copy(bytes);
  const auto parts = manifest_format::checkHeader(memory.bytes());
  if (!parts.ok()) return parts.error();
  const Status checked = manifest_format::checkEntries(*parts);
  if (!checked.ok()) return checked.error();
  return std::shared_ptr<const Manifest>(
      std::make_shared<const ManifestImage>(std::move(memory), *parts));
}

}  // namespace hearth
