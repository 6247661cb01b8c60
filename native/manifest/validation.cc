#include "manifest/validation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "manifest/manifest.h"
#include "manifest/names.h"

namespace hearth::manifest_format {
namespace {

Error corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, "the manifest is damaged: " + std::string(what) +
                                   "; remove it and let it be fetched or listed again"};
}

Error corruptEntry(std::uint32_t index, std::string_view what) {
  return corrupt("entry " + std::to_string(index) + ": " + std::string(what));
}

template <std::size_t N>
bool allZero(const std::array<std::uint8_t, N>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

// Walks the entries once in their (breadth-first) order.
class Walk {
 public:
  explicit Walk(const Parts& parts)
      : parts_(parts), count_(parts.header->entries), pathBytes_(count_) {}

  Status run() {
    for (std::uint32_t index = 0; index < count_; ++index) {
      const Entry& entry = parts_.entry(index);
      std::optional<std::string> wrong = placement(index, entry);
      if (!wrong) wrong = fields(entry);
      if (wrong) return corruptEntry(index, *wrong);
    }
    const Header& header = *parts_.header;
    if (nextChild_ != count_) return corrupt("directories do not hold all entries");
    if (digests_ != header.digests) return corrupt("the digest table has another length");
    if (files_ != header.files || directories_ != header.directories ||
        symlinks_ != header.symlinks || bytes_ != header.contentBytes) {
      return corrupt("its totals are wrong");
    }
    return {};
  }

 private:
  // The place in the tree. Invariant: entries below nextChild_ have a parent; the child ranges of
  // directories follow one another without gaps, so that every entry has exactly one.
  std::optional<std::string> placement(std::uint32_t index, const Entry& entry) {
    if (entry.kind > static_cast<std::uint8_t>(EntryKind::kSymlink)) return "its kind is unknown";
    const std::string_view name = parts_.text(entry.name);
    if (index == kRootEntry) {
      if (entry.kind != static_cast<std::uint8_t>(EntryKind::kDirectory)) {
        return "the root is not a directory";
      }
      if (entry.parent != kRootEntry || entry.name.packed != 0)
        return "the root has a name or parent";
    } else {
      if (index >= nextChild_ || entry.parent >= index) return "it is in no directory";
      const Entry& parent = parts_.entry(entry.parent);
      const auto first = static_cast<std::uint32_t>(parent.sizeOrChildren);
      const auto children = static_cast<std::uint32_t>(parent.sizeOrChildren >> 32);
      if (parent.kind != static_cast<std::uint8_t>(EntryKind::kDirectory) || index < first ||
          index - first >= children) {
        return "its parent does not hold it";
      }
      if (!parts_.holds(entry.name)) return "its name lies outside the string table";
      if (auto reason = unusableName(name)) return reason;
      if (index > first && parts_.text(parts_.entry(index - 1).name) >= name) {
        return "it is not sorted by name";
      }
      const std::size_t slash = entry.parent == kRootEntry ? 0 : 1;
      const std::size_t length = pathBytes_[entry.parent] + slash + name.size();
      if (length > kMaxPathBytes) return "its path is longer than 4095 bytes";
      pathBytes_[index] = static_cast<std::uint16_t>(length);
    }
    if (entry.kind == static_cast<std::uint8_t>(EntryKind::kDirectory)) {
      const auto first = static_cast<std::uint32_t>(entry.sizeOrChildren);
      const auto children = static_cast<std::uint32_t>(entry.sizeOrChildren >> 32);
      if (first != nextChild_ || children > count_ - nextChild_) {
        return "its children are not where they belong";
      }
      nextChild_ += children;
    }
    return std::nullopt;
  }

  std::optional<std::string> fields(const Entry& entry) {
    const bool extended = parts_.header->extended();
    if (!extended && !allZero(entry.reserved)) return "a reserved field is set";
    if (!parts_.holds(entry.text)) return "its text lies outside the string table";
    const bool isFile = entry.kind == static_cast<std::uint8_t>(EntryKind::kFile);
    if (!isFile && ((!extended && entry.flags != 0) || entry.digest != 0 ||
                    entry.objectOffset != 0 || !allZero(entry.key))) {
      return "it has fields that only files have";
    }
    switch (static_cast<EntryKind>(entry.kind)) {
      case EntryKind::kFile:
        return file(entry);
      case EntryKind::kDirectory:
        ++directories_;
        if (entry.text.packed != 0) return "a directory has a text";
        return std::nullopt;
      case EntryKind::kSymlink:
        ++symlinks_;
        if (entry.sizeOrChildren != 0) return "a link has a size";
        return unusableTarget(parts_.text(entry.text));
    }
    return "its kind is unknown";
  }

  std::optional<std::string> file(const Entry& entry) {
    ++files_;
    if (!parts_.header->extended() && (entry.flags & ~kExecutable) != 0)
      return "an unknown flag is set";
    const std::uint64_t size = entry.sizeOrChildren;
    if (size > kMaxBytes || entry.objectOffset > kMaxBytes - size) return "its size is too large";
    if (size > kMaxBytes - bytes_) return "the sum of sizes is too large";
    bytes_ += size;
    // Digests are numbered in the order of entries: one form only for one content.
    if (entry.digest != 0 && entry.digest != ++digests_) return "its digest is out of order";
    return unusableValidator(parts_.text(entry.text));
  }

  const Parts& parts_;
  const std::uint32_t count_;
  std::vector<std::uint16_t> pathBytes_;
  std::uint32_t nextChild_ = 1;
  std::uint32_t files_ = 0, directories_ = 0, symlinks_ = 0;
  std::uint64_t bytes_ = 0, digests_ = 0;
};

}  // namespace

Result<Parts> checkHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Header)) return corrupt("it is shorter than its header");
  const auto* const header = reinterpret_cast<const Header*>(bytes.data());
  if (header->magic != kMagic) return corrupt("it does not begin like a manifest");
  if (header->version != kVersion) {
    return Error{ErrorCode::kUnsupported,
                 "the manifest has format version " + std::to_string(header->version) +
                     " and this build reads version 1; use an agent of the release that wrote it"};
  }
  const auto checked = bytes.first(offsetof(Header, checksum));
  if (header->checksum != crc32c(checked)) return corrupt("its header's checksum is wrong");
  if ((header->requiredFeatures & ~kKnownRequired) != 0) {
    return Error{ErrorCode::kUnsupported,
                 "the manifest needs features of the format (" +
                     std::to_string(header->requiredFeatures & ~kKnownRequired) +
                     ") that this build, of version 1.0, does not know; use an agent of the "
                     "release that wrote it or of a later one"};
  }
  const std::uint32_t entryBytes = header->entryBytes == 0 ? sizeof(Entry) : header->entryBytes;
  // Bytes that we know to be zero are, unless they may belong to a feature that we need not know.
  if (header->headerBytes < sizeof(Header) || header->headerBytes > kMaxHeaderBytes ||
      header->headerBytes % alignof(Header) != 0 || entryBytes < sizeof(Entry) ||
      entryBytes > kMaxEntryBytes || entryBytes % alignof(Entry) != 0 ||
      (!header->extended() && !allZero(header->reserved))) {
    return corrupt("its header has another form");
  }
  // Each part begins where the one before ends. Counts are below 2^32 and stringBytes below the
  // file's size when the sums are right, so nothing here can overflow before it is refused.
  const std::uint64_t size = bytes.size();
  const std::uint64_t digestsOffset =
      header->headerBytes + std::uint64_t{header->entries} * entryBytes;
  if (header->fileBytes != size || header->entries == 0 || header->entries > kMaxEntries ||
      header->digests > header->entries || header->stringBytes > size ||
      header->entriesOffset != header->headerBytes || header->digestsOffset != digestsOffset ||
      header->stringsOffset != digestsOffset + header->digests * sizeof(Sha256Digest)) {
    return corrupt("its parts do not have the lengths that its header says");
  }
  // Parts that later releases add follow the strings.
  const std::uint64_t end = header->stringsOffset + padded(header->stringBytes);
  if (end > size || (end != size && !header->extended()))
    return corrupt("its parts do not have the lengths that its header says");
  return Parts{
      .header = header,
      .entries = bytes.data() + header->entriesOffset,
      .entryBytes = entryBytes,
      .digests = reinterpret_cast<const Sha256Digest*>(bytes.data() + header->digestsOffset),
      .strings = reinterpret_cast<const char*>(bytes.data() + header->stringsOffset)};
}

Status checkEntries(const Parts& parts) {
  const char* const end = parts.strings + padded(parts.header->stringBytes);
  for (const char* at = parts.strings + parts.header->stringBytes; at < end; ++at) {
    if (*at != 0) return corrupt("its padding is not zero");
  }
  return Walk(parts).run();
}

}  // namespace hearth::manifest_format
