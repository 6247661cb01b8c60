#include "fuse/fuse_tree.h"

#include <dirent.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace hearth {
namespace {

constexpr std::uint64_t kForEver = 365ULL * 86400;  // seconds; manifests are immutable
constexpr std::uint32_t kBlockSize = 4096;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

constexpr char kXattrSource[] = "user.hearth.source";
constexpr char kXattrResident[] = "user.hearth.resident";
constexpr char kXattrDataPath[] = "user.hearth.datapath";

// Seconds and a remainder that is never negative.
void splitTime(std::int64_t ns, std::int64_t& seconds, std::uint32_t& rest) {
  seconds = ns / kNsPerSecond;
  std::int64_t remainder = ns % kNsPerSecond;
  if (remainder < 0) {
    remainder += kNsPerSecond;
    --seconds;
  }
  rest = static_cast<std::uint32_t>(remainder);
}

std::uint32_t modeOf(const ManifestEntry& entry) {
  switch (entry.kind) {
    case EntryKind::kFile:
      return S_IFREG | (entry.executable ? 0555 : 0444);
    case EntryKind::kDirectory:
      return S_IFDIR | 0555;
    case EntryKind::kSymlink:
      return S_IFLNK | 0777;
  }
  return S_IFREG;
}

std::uint32_t direntType(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile:
      return DT_REG;
    case EntryKind::kDirectory:
      return DT_DIR;
    case EntryKind::kSymlink:
      return DT_LNK;
  }
  return DT_UNKNOWN;
}

std::uint64_t sizeOf(const ManifestEntry& entry) {
  switch (entry.kind) {
    case EntryKind::kFile:
      return entry.size;
    case EntryKind::kDirectory:
      return kBlockSize;
    case EntryKind::kSymlink:
      return entry.symlinkTarget.size();
  }
  return 0;
}

fuse_attr attributesOf(const ManifestEntry& entry) {
  fuse_attr attr{};
  attr.ino = inodeNumber(entry.index);
  attr.size = sizeOf(entry);
  attr.blocks = (attr.size + 511) / 512;
  std::int64_t seconds = 0;
  std::uint32_t rest = 0;
  splitTime(entry.modifiedNs, seconds, rest);
  attr.atime = attr.mtime = attr.ctime = static_cast<std::uint64_t>(seconds);
  attr.atimensec = attr.mtimensec = attr.ctimensec = rest;
  attr.mode = modeOf(entry);
  attr.nlink = 1;  // of a folder: "not counted", so that find(1) does not rely on it
  attr.blksize = kBlockSize;
  return attr;
}

FuseStatx statxOf(const ManifestEntry& entry) {
  const fuse_attr attr = attributesOf(entry);
  FuseStatx stat{};
  stat.mask = STATX_BASIC_STATS;
  stat.blockSize = attr.blksize;
  stat.links = attr.nlink;
  stat.mode = static_cast<std::uint16_t>(attr.mode);
  stat.inode = attr.ino;
  stat.size = attr.size;
  stat.blocks = attr.blocks;
  splitTime(entry.modifiedNs, stat.modified.seconds, stat.modified.nanoseconds);
  stat.accessed = stat.changed = stat.modified;
  return stat;
}

fuse_entry_out entryOut(const ManifestEntry& entry) {
  const bool file = entry.kind == EntryKind::kFile;
  fuse_entry_out out{};
  out.nodeid = encodeNodeId({entry.index, file ? NodeKind::kFile : NodeKind::kTree});
  out.entry_valid = kForEver;
  out.attr_valid = kForEver;
  out.attr = attributesOf(entry);
  return out;
}

// Appends one record, or says that there is no room.
bool append(std::vector<std::byte>& out, std::size_t limit, const fuse_entry_out* plus,
            std::uint64_t ino, std::uint64_t next, std::uint32_t type, std::string_view name) {
  const std::size_t prefix = plus != nullptr ? sizeof *plus : 0;
  const std::size_t begin = out.size();
  const std::size_t length = FUSE_REC_ALIGN(prefix + FUSE_NAME_OFFSET + name.size());
  if (begin + length > limit) return false;
  out.resize(begin + length);
  std::byte* at = out.data() + begin;
  if (plus != nullptr) std::memcpy(at, plus, sizeof *plus);
  at += prefix;
  fuse_dirent record{};
  record.ino = ino;
  record.off = next;
  record.namelen = static_cast<std::uint32_t>(name.size());
  record.type = type;
  std::memcpy(at, &record, FUSE_NAME_OFFSET);
  std::memcpy(at + FUSE_NAME_OFFSET, name.data(), name.size());
  return true;
}

}  // namespace

int FuseTree::entryOf(std::uint64_t node, ManifestEntry& entry) const {
  const auto id = decodeNodeId(node);
  if (!id || id->entry >= source_.manifest().totals().entries) return ESTALE;
  entry = source_.manifest().entry(id->entry);
  return (entry.kind == EntryKind::kFile) == (id->kind == NodeKind::kFile) ? 0 : ESTALE;
}

bool FuseTree::passesThrough(const ManifestEntry& file) const {
  return passthrough_ && source_.passesThrough(file);
}

int FuseTree::lookUp(std::uint64_t node, std::string_view name, fuse_entry_out& out) const {
  ManifestEntry parent;
  if (const int error = entryOf(node, parent); error != 0) return error;
  // "." and ".." are asked for by file handles (name_to_handle_at, NFS export).
  if (name == ".") {
    out = entryOut(parent);
    out.nodeid = node;  // a handle that holds an earlier release's id wants that one
    return 0;
  }
  if (parent.kind != EntryKind::kDirectory) return ENOTDIR;
  if (name == "..") {
    out = entryOut(source_.manifest().entry(parent.parent));
    return 0;
  }
  if (const auto index = source_.manifest().find(parent.index, name)) {
    out = entryOut(source_.manifest().entry(*index));
    return 0;
  }
  out = fuse_entry_out{};
  out.entry_valid = kForEver;
  return 0;
}

int FuseTree::attributes(std::uint64_t node, fuse_attr_out& out) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  out = fuse_attr_out{};
  out.attr_valid = kForEver;
  out.attr = attributesOf(entry);
  return 0;
}

int FuseTree::statx(std::uint64_t node, FuseStatxOut& out) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  out = FuseStatxOut{};
  out.validSeconds = kForEver;
  out.stat = statxOf(entry);
  return 0;
}

int FuseTree::access(std::uint64_t node, std::uint32_t mask) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  if ((mask & W_OK) != 0) return EROFS;
  return (mask & X_OK) != 0 && (modeOf(entry) & 0111) == 0 ? EACCES : 0;
}

int FuseTree::readLink(std::uint64_t node, std::string_view& target) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  if (entry.kind != EntryKind::kSymlink) return EINVAL;
  target = entry.symlinkTarget;
  return 0;
}

int FuseTree::readDirectory(std::uint64_t node, std::uint64_t offset, std::uint32_t size, bool plus,
                            std::vector<std::byte>& out) const {
  ManifestEntry folder;
  if (const int error = entryOf(node, folder); error != 0) return error;
  if (folder.kind != EntryKind::kDirectory) return ENOTDIR;
  const std::size_t limit = out.size() + size;
  // The kernel takes no entry of "." and "..": node id 0 says so.
  const fuse_entry_out none{};
  const std::uint64_t count = folder.childCount + std::uint64_t{2};
  for (std::uint64_t position = offset; position < count; ++position) {
    const std::uint64_t next = position + 1;
    bool fits = false;
    if (position < 2) {
      const std::uint32_t index = position == 0 ? folder.index : folder.parent;
      fits = append(out, limit, plus ? &none : nullptr, inodeNumber(index), next, DT_DIR,
                    position == 0 ? "." : "..");
    } else {
      const auto index = folder.firstChild + static_cast<std::uint32_t>(position - 2);
      const ManifestEntry child = source_.manifest().entry(index);
      const fuse_entry_out entry = plus ? entryOut(child) : none;
      fits = append(out, limit, plus ? &entry : nullptr, inodeNumber(index), next,
                    direntType(child.kind), child.name);
    }
    if (!fits) break;
  }
  return 0;
}

fuse_statfs_out FuseTree::statistics() const {
  const ManifestTotals totals = source_.manifest().totals();
  fuse_statfs_out out{};
  out.st.bsize = out.st.frsize = kBlockSize;
  out.st.blocks = (totals.bytes + kBlockSize - 1) / kBlockSize;
  out.st.files = totals.entries;
  out.st.namelen = 255;
  return out;
}

int FuseTree::xattr(std::uint64_t node, std::string_view name, bool opensByDaemon,
                    std::string& value) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  if (name == kXattrSource) {
    value = source_.sourceName();
    return 0;
  }
  if (entry.kind != EntryKind::kFile) return ENODATA;
  if (name == kXattrResident) {
    value = std::to_string(source_.residentBytes(entry.index)) + "/" + std::to_string(entry.size);
    return 0;
  }
  if (name == kXattrDataPath) {
    const bool complete = source_.complete(entry.index);
    value = passesThrough(entry) && complete && !opensByDaemon ? "passthrough"
            : !complete && source_.readsThrough()              ? "through"
                                                               : "daemon";
    return 0;
  }
  return ENODATA;
}

int FuseTree::xattrNames(std::uint64_t node, std::string& names) const {
  ManifestEntry entry;
  if (const int error = entryOf(node, entry); error != 0) return error;
  names.assign(kXattrSource, sizeof kXattrSource);
  if (entry.kind == EntryKind::kFile) {
    names.append(kXattrResident, sizeof kXattrResident);
    names.append(kXattrDataPath, sizeof kXattrDataPath);
  }
  return 0;
}

}  // namespace hearth
