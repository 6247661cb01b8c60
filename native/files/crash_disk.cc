#include "files/crash_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hearth {

void CrashNode::resize(std::uint64_t size) {
  const std::uint64_t pages =
      (size + CrashFileSystem::kPageBytes - 1) / CrashFileSystem::kPageBytes;
  writtenPages.erase(writtenPages.lower_bound(pages), writtenPages.end());
  if (size > data.capacity() && mapped) {
    std::vector<std::byte> grown(data);
    grown.resize(size);
    retired.push_back(std::move(data));
    data = std::move(grown);
  } else {
    // A later growth must uncover zeros, also on the disk.
    for (std::uint64_t page = size / CrashFileSystem::kPageBytes;
         size < data.size() && page * CrashFileSystem::kPageBytes < data.size(); ++page) {
      dirtyPages.insert(page);
    }
    data.resize(size);
  }
}

void CrashNode::write(std::span<const std::byte> from, std::uint64_t offset) {
  if (from.empty()) return;
  if (offset + from.size() > data.size()) resize(offset + from.size());
  std::memcpy(data.data() + offset, from.data(), from.size());
  const std::uint64_t last = (offset + from.size() - 1) / CrashFileSystem::kPageBytes;
  for (std::uint64_t page = offset / CrashFileSystem::kPageBytes; page <= last; ++page) {
    dirtyPages.insert(page);
    writtenPages.insert(page);
  }
}

void CrashNode::syncData() {
  synced.resize(data.size());
  for (const std::uint64_t page : dirtyPages) {
    const std::uint64_t begin = page * CrashFileSystem::kPageBytes;
    if (begin >= data.size()) continue;
    const std::uint64_t length = std::min(CrashFileSystem::kPageBytes, data.size() - begin);
    std::memcpy(synced.data() + begin, data.data() + begin, length);
  }
  dirtyPages.clear();
}

void CrashNode::apply(Operation operation) {
  if (!operation.removed.empty()) entries.erase(operation.removed);
  if (operation.node) {
    entries[operation.name] = operation.node;
  } else {
    entries.erase(operation.name);
  }
  pending.push_back(std::move(operation));
}

FileInfo CrashNode::info() const {
  FileInfo info;
  info.kind = kind;
  info.size = data.size();
  info.allocated = writtenPages.size() * CrashFileSystem::kPageBytes;
  info.inode = inode;
  info.device = 1;
  info.links = links;
  info.mode = mode;
  info.modifiedNs = modifiedNs;
  info.changedNs = modifiedNs;
  return info;
}

CrashFileSystem::Disk::Disk() { root = make(FileInfo::Kind::kDirectory, 0755); }

std::shared_ptr<CrashNode> CrashFileSystem::Disk::make(FileInfo::Kind kind, std::uint32_t mode) {
  auto node = std::make_shared<CrashNode>();
  node->kind = kind;
  node->mode = mode;
  node->inode = nextInode++;
  node->modifiedNs = ++clockNs;
  return node;
}

CrashFileSystem::Disk::Verdict CrashFileSystem::Disk::admit(FileCall call, bool changes,
                                                            const std::string& path,
                                                            Status& error) {
  if (crashed()) {
    error = errnoError(EIO, path + " (the disk has crashed)");
    return Verdict::kFail;
  }
  for (Injection& injection : injections) {
    if (injection.call != call || injection.times == 0) continue;
    if (injection.skip > 0) {
      --injection.skip;
      continue;
    }
    --injection.times;
    error = errnoError(injection.error, path);
    return Verdict::kFail;
  }
  if (!changes) return Verdict::kDo;
  ++operations;
  if (!crashed()) return Verdict::kDo;
  error = errnoError(EIO, path + " (the disk has crashed)");
  const bool sync = call == FileCall::kSync || call == FileCall::kSyncDirectory;
  return sync ? Verdict::kFail : Verdict::kDoAndFail;
}

Result<std::shared_ptr<CrashNode>> CrashFileSystem::Disk::find(const std::string& path) const {
  std::shared_ptr<CrashNode> node = root;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty()) continue;
    const auto found = node->entries.find(part);
    if (found == node->entries.end()) return errnoError(ENOENT, path);
    node = found->second;
  }
  return node;
}

Result<CrashFileSystem::Disk::Place> CrashFileSystem::Disk::place(const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return errnoError(EINVAL, path);
  Result<std::shared_ptr<CrashNode>> directory = find(path.substr(0, slash));
  if (!directory.ok()) return directory.error();
  if ((*directory)->kind != FileInfo::Kind::kDirectory) return errnoError(ENOTDIR, path);
  return Place{*directory, path.substr(slash + 1)};
}

}  // namespace hearth
