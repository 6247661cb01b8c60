#include "volume/log_tail.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace hearth {
namespace {

constexpr HeadMagic kTailMagic{'H', 'R', 'T', 'H', 'T', 'A', 'I', 'L'};

std::string parentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

Status makeFolder(const std::string& folder) {
  struct statfs about {};
  const bool absent = ::statfs(folder.c_str(), &about) != 0 && errno == ENOENT;
  if (absent) {
    const std::string above = parentOf(folder);
    if (::statfs(above.c_str(), &about) != 0) return errnoError(errno, "look at " + above);
  }
  if (about.f_type != TMPFS_MAGIC) {
    return Error{ErrorCode::kUnsupported, folder + " is on no tmpfs"};
  }
  if (absent && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return errnoError(errno, "make " + folder);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<LogTail>> LogTail::find(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::unique_ptr<LogTail>();
  if (!file) return errnoError(errno, "open " + path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return errnoError(errno, "look at " + path);
  // A process ended while it made the file.
  if (info.st_size < static_cast<off_t>(kBytes)) return std::unique_ptr<LogTail>();
  auto tail = map(file, path);
  SegmentHead head;
  if (tail.ok() && decodeSegmentHead((*tail)->memory_, head, kTailMagic) == HeadKind::kLater) {
    return Error{ErrorCode::kUnsupported, path + " was written by a later release of Hearth"};
  }
  return tail;
}

Result<std::unique_ptr<LogTail>> LogTail::make(const std::string& path) {
  if (const Status made = makeFolder(parentOf(path)); !made.ok()) return made.error();
  const OwnedFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return errnoError(errno, "make " + path);
  // Else a full tmpfs would end the process at its first touch of a page.
  if (const int failed = ::posix_fallocate(file.get(), 0, kBytes); failed != 0) {
    ::unlink(path.c_str());
    return errnoError(failed, "allocate " + path);
  }
  return map(file, path);
}

Result<std::unique_ptr<LogTail>> LogTail::map(const OwnedFd& file, const std::string& path) {
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return errnoError(errno, "map " + path);
  return std::unique_ptr<LogTail>(new LogTail({static_cast<std::byte*>(memory), kBytes}));
}

LogTail::~LogTail() { ::munmap(memory_.data(), memory_.size()); }

std::optional<LogTail::Left> LogTail::left() const {
  Left found;
  if (decodeSegmentHead(memory_, found.segment, kTailMagic) != HeadKind::kGood) return std::nullopt;
  found.bytes = memory_.subspan(kSegmentHeadBytes);
  const auto offset = groupOffset(found.bytes);
  if (!offset) return std::nullopt;
  found.offset = *offset;
  return found;
}

void LogTail::begin(const SegmentHead& segment) {
  used_ = kSegmentHeadBytes;
  if (segment_ == segment) return;
  segment_ = segment;
  const std::vector<std::byte> head = encodeSegmentHead(segment, kTailMagic);
  std::memcpy(memory_.data(), head.data(), head.size());
}

std::size_t LogTail::room() const {
  const std::size_t end = kBytes - kGroupHeadBytes;
  return end - std::min(used_, end);
}

void LogTail::append(std::span<const std::byte> group) {
  // Zeros end this group, where an earlier one may have left a head.
  std::memset(memory_.data() + used_ + group.size(), 0, kGroupHeadBytes);
  std::memcpy(memory_.data() + used_, group.data(), group.size());
  used_ += group.size();
  // The kernel keeps all stores of a process that it kills; the compiler may not put off these.
  std::atomic_thread_fence(std::memory_order_release);
}

std::span<const std::byte> LogTail::last(std::size_t bytes) const {
  return memory_.subspan(used_ - bytes, bytes);
}

}  // namespace hearth
