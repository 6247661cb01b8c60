#include "files/posix_file.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace hearth {
namespace {

// Longest single read or write: what fits a completion's 32-bit result with room to spare.
constexpr std::size_t kLongestTransfer = std::size_t{1} << 30;

// The alignment of memory and offsets that satisfies every file system with direct input/output.
constexpr std::size_t kDirectAlignment = 4096;

// Of every architecture that we are built for; larger ones answer for more at a time.
constexpr std::size_t kPageBytes = 4096;

// An empty file cannot be mapped; its bytes are this many: none.
constexpr std::byte kNothing{};

}  // namespace

FileInfo fileInfoOf(const struct stat& from) {
  FileInfo info;
  info.kind = S_ISREG(from.st_mode)   ? FileInfo::Kind::kFile
              : S_ISDIR(from.st_mode) ? FileInfo::Kind::kDirectory
              : S_ISLNK(from.st_mode) ? FileInfo::Kind::kSymlink
                                      : FileInfo::Kind::kOther;
  info.size = static_cast<std::uint64_t>(from.st_size);
  info.allocated = static_cast<std::uint64_t>(from.st_blocks) * 512;  // stat(2): units of 512 bytes
  info.inode = from.st_ino;
  info.device = from.st_dev;
  info.links = static_cast<std::uint32_t>(from.st_nlink);
  info.mode = from.st_mode & 07777;
  info.modifiedNs = std::int64_t{from.st_mtim.tv_sec} * 1'000'000'000 + from.st_mtim.tv_nsec;
  info.changedNs = std::int64_t{from.st_ctim.tv_sec} * 1'000'000'000 + from.st_ctim.tv_nsec;
  return info;
}

Result<std::size_t> readFrom(int descriptor, std::span<std::byte> into, std::uint64_t offset,
                             const std::string& path) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t count = pread(descriptor, into.data() + done, into.size() - done,
                                static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "read " + path);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

PosixFile::~PosixFile() {
  if (mappedBytes_ != 0) munmap(const_cast<std::byte*>(mapped_), mappedBytes_);
  if (direct_ >= 0) ::close(direct_);
  ::close(descriptor_);
}

bool PosixFile::mayGoDirect(const std::byte* memory, std::size_t size, std::uint64_t offset) const {
  return direct_ >= 0 && size >= kDirectAlignment && offset % kDirectAlignment == 0 &&
         reinterpret_cast<std::uintptr_t>(memory) % kDirectAlignment == 0;
}

Task<int> PosixFile::perform(Operation operation) {
  if (threads_ == nullptr || !reactor_.blocksForFiles())
    co_return co_await reactor_.perform(operation);
  co_return co_await reactor_.offload(*threads_, [&operation] { return callFile(operation); });
}

Task<Result<std::size_t>> PosixFile::readAt(std::span<std::byte> into, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < into.size()) {
    auto rest = into.subspan(done, std::min(into.size() - done, kLongestTransfer));
    const bool direct = mayGoDirect(rest.data(), rest.size(), offset + done);
    if (direct) rest = rest.first(rest.size() / kDirectAlignment * kDirectAlignment);
    const int count = co_await perform({.kind = OperationKind::kRead,
                                        .fd = direct ? direct_ : descriptor_,
                                        .address = rest.data(),
                                        .length = static_cast<std::uint32_t>(rest.size()),
                                        .offset = offset + done});
    if (count == -EINTR || count == -EAGAIN) continue;
    if (count < 0) co_return errnoError(-count, "read " + path_);
    done += static_cast<std::size_t>(count);
    // A short direct read is the end of the file.
    if (count == 0 || (direct && static_cast<std::size_t>(count) < rest.size())) break;
  }
  co_return done;
}

Task<Status> PosixFile::writeAt(std::span<const std::byte> from, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < from.size()) {
    auto rest = from.subspan(done, std::min(from.size() - done, kLongestTransfer));
    const bool direct = mayGoDirect(rest.data(), rest.size(), offset + done);
    // The last part of a page goes through the page cache, which no other write of that page does.
    if (direct) rest = rest.first(rest.size() / kDirectAlignment * kDirectAlignment);
    const int count = co_await perform({.kind = OperationKind::kWrite,
                                        .fd = direct ? direct_ : descriptor_,
                                        .address = const_cast<std::byte*>(rest.data()),
                                        .length = static_cast<std::uint32_t>(rest.size()),
                                        .offset = offset + done});
    if (count == -EINTR || count == -EAGAIN) continue;
    if (count < 0) co_return errnoError(-count, "write " + path_);
    if (count == 0) co_return errnoError(EIO, "write " + path_);
    done += static_cast<std::size_t>(count);
  }
  co_return Status();
}

Task<Status> PosixFile::syncData() {
  const int result = co_await perform({.kind = OperationKind::kSyncData, .fd = descriptor_});
  if (result < 0) co_return errnoError(-result, "fdatasync " + path_);
  co_return Status();
}

Task<Status> PosixFile::truncate(std::uint64_t size) {
  // The journal of a disk that hangs may hold it up.
  auto call = [descriptor = descriptor_, size] {
    return ftruncate(descriptor, static_cast<off_t>(size)) == 0 ? 0 : errno;
  };
  const int error = threads_ != nullptr ? co_await reactor_.offload(*threads_, call)
                                        : co_await reactor_.offload(call);
  if (error != 0) co_return errnoError(error, "truncate " + path_);
  co_return Status();
}

Task<Result<FileInfo>> PosixFile::info() {
  struct stat from {};
  if (fstat(descriptor_, &from) != 0) co_return errnoError(errno, "stat " + path_);
  co_return fileInfoOf(from);
}

Task<Status> PosixFile::lock() {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) co_return Status();
  if (errno != EWOULDBLOCK) co_return errnoError(errno, "flock " + path_);
  co_return Error{ErrorCode::kInUse, path_ + " is locked by another process"};
}

std::size_t PosixFile::readInMemory(std::span<std::byte> into, std::uint64_t offset) {
  const iovec piece{into.data(), into.size()};
  const ssize_t count = preadv2(descriptor_, &piece, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

Result<std::size_t> PosixFile::readWaiting(std::span<std::byte> into, std::uint64_t offset) {
  return readFrom(descriptor_, into, offset, path_);
}

bool PosixFile::inMemory(std::uint64_t offset, std::uint64_t length) {
  // More than any one read of a mount.
  constexpr std::size_t kPages = 2048;
  std::array<unsigned char, kPages> pages;
  const std::byte* base = nullptr;
  {
    const std::lock_guard guard(mapping_);
    if (mappedBytes_ == 0) return false;
    base = mapped_;
    length = std::min(length, mappedBytes_ - std::min(offset, mappedBytes_));
  }
  for (std::uint64_t at = offset / kPageBytes * kPageBytes; at < offset + length;) {
    const std::uint64_t part = std::min<std::uint64_t>(offset + length - at, kPages * kPageBytes);
    // mincore(2) does not change what it is asked about.
    if (mincore(const_cast<std::byte*>(base) + at, part, pages.data()) != 0) return true;
    const std::size_t count = (part + kPageBytes - 1) / kPageBytes;
    const auto absent = [](unsigned char page) { return (page & 1) == 0; };
    if (std::any_of(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count), absent))
      return false;
    at += part;
  }
  return true;
}

Result<const std::byte*> PosixFile::map(std::uint64_t size) {
  const std::lock_guard guard(mapping_);
  if (mapped_ != nullptr) return mapped_;
  if (size == 0) return mapped_ = &kNothing;
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (address == MAP_FAILED) return errnoError(errno, "mmap " + path_);
  mapped_ = static_cast<const std::byte*>(address);
  mappedBytes_ = size;
  return mapped_;
}

}  // namespace hearth
