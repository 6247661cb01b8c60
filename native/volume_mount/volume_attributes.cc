#include "volume_mount/volume_attributes.h"

#include <sys/stat.h>

#include <cstring>

namespace hearth {
namespace {

constexpr std::uint32_t kVolumeBlockBytes = 4096;
constexpr std::uint64_t kFolderSeconds = 1;

// Seconds and a remainder that is never negative.
void splitTime(std::int64_t ns, std::uint64_t& seconds, std::uint32_t& rest) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t remainder = (ns % kSecond + kSecond) % kSecond;
  seconds = static_cast<std::uint64_t>((ns - remainder) / kSecond);
  rest = static_cast<std::uint32_t>(remainder);
}

std::uint64_t secondsKept(const tree::Attributes& attributes) {
  return attributes.inode.kind == tree::Kind::kFolder ? kFolderSeconds : 0;
}

}  // namespace

bool keepsXattr(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("trusted.");
}

std::uint32_t typeOf(tree::Kind kind) {
  switch (kind) {
    case tree::Kind::kFile:
      return S_IFREG;
    case tree::Kind::kFolder:
      return S_IFDIR;
    case tree::Kind::kSymlink:
      return S_IFLNK;
    case tree::Kind::kFifo:
      return S_IFIFO;
    case tree::Kind::kSocket:
      return S_IFSOCK;
  }
  return S_IFREG;
}

fuse_attr fuseAttributes(const tree::Attributes& attributes) {
  const tree::Inode& inode = attributes.inode;
  fuse_attr attr{};
  attr.ino = static_cast<std::uint64_t>(attributes.id);
  attr.size = inode.kind == tree::Kind::kFolder ? kVolumeBlockBytes : attributes.size;
  attr.blocks = (attr.size + 511) / 512;
  splitTime(inode.accessedNs, attr.atime, attr.atimensec);
  splitTime(inode.modifiedNs, attr.mtime, attr.mtimensec);
  splitTime(inode.changedNs, attr.ctime, attr.ctimensec);
  attr.mode = typeOf(inode.kind) | inode.mode;
  attr.nlink = inode.links;
  attr.uid = inode.uid;
  attr.gid = inode.gid;
  attr.blksize = kVolumeBlockBytes;
  return attr;
}

fuse_attr_out attributesAnswer(const tree::Attributes& attributes) {
  fuse_attr_out out{};
  out.attr_valid = secondsKept(attributes);
  out.attr = fuseAttributes(attributes);
  return out;
}

fuse_entry_out entryAnswer(std::uint64_t node, const tree::Attributes& attributes) {
  fuse_entry_out out{};
  out.nodeid = node;
  out.entry_valid = out.attr_valid = secondsKept(attributes);
  out.attr = fuseAttributes(attributes);
  return out;
}

std::size_t directoryRecordBytes(std::string_view name, bool plus) {
  const std::size_t prefix = plus ? sizeof(fuse_entry_out) : 0;
  return FUSE_REC_ALIGN(prefix + FUSE_NAME_OFFSET + name.size());
}

void appendDirectoryRecord(std::vector<std::byte>& out, const DirectoryRecord& record,
                           const fuse_entry_out* entry) {
  const std::size_t begin = out.size();
  out.resize(begin + directoryRecordBytes(record.name, entry != nullptr));
  std::byte* at = out.data() + begin;
  if (entry != nullptr) {
    std::memcpy(at, entry, sizeof *entry);
    at += sizeof *entry;
  }
  fuse_dirent head{};
  head.ino = record.inode;
  head.off = record.cookie;
  head.namelen = static_cast<std::uint32_t>(record.name.size());
  head.type = (record.type & S_IFMT) >> 12;  // DT_REG and its like
  std::memcpy(at, &head, FUSE_NAME_OFFSET);
  std::memcpy(at + FUSE_NAME_OFFSET, record.name.data(), record.name.size());
}

}  // namespace hearth
