#include "gpu/opened_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "memory/page_cache.h"

namespace hearth {
namespace {

bool isAligned(const void* memory, std::uint64_t offset) {
  return (reinterpret_cast<std::uintptr_t>(memory) | offset) % kDirectAlignment == 0;
}

// Bytes moved by one call, which is repeated when a signal interrupts it; -errno for an error.
template <class Call>
ssize_t uninterrupted(Call call) {
  for (;;) {
    const ssize_t moved = call();
    if (moved >= 0) return moved;
    if (errno != EINTR) return -errno;
  }
}

}  // namespace

Result<std::shared_ptr<OpenedFile>> OpenedFile::open(const std::string& path, FileUse use) {
  const int flags = (use == FileUse::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC;
  OwnedFd cached(::open(path.c_str(), flags));
  if (!cached) return errnoError(errno, "open " + path);
  struct stat info {};
  if (fstat(cached.get(), &info) != 0) return errnoError(errno, "stat " + path);
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, path + " is not a regular file"};
  }
  // By the descriptor, so that both are the same file whatever happens to the name.
  const std::string same = "/proc/self/fd/" + std::to_string(cached.get());
  OwnedFd direct(::open(same.c_str(), flags | O_DIRECT));
  return std::shared_ptr<OpenedFile>(
      new OpenedFile(path, std::move(cached), std::move(direct), info.st_dev, info.st_ino));
}

Result<std::uint64_t> OpenedFile::size() const {
  struct stat info {};
  if (fstat(cached_.get(), &info) != 0) return errnoError(errno, "stat " + path_);
  return static_cast<std::uint64_t>(info.st_size);
}

bool OpenedFile::isCurrent() const {
  struct stat info {};
  return stat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

Status OpenedFile::read(std::span<std::byte> into, std::uint64_t offset, std::size_t least,
                        bool throughPageCache) const {
  bool direct = !throughPageCache && direct_ && isAligned(into.data(), offset) &&
                !arePagesCached(cached_.get(), offset, least);
  for (std::size_t done = 0; done < least;) {
    if (direct) done -= done % kDirectAlignment;
    const int file = direct ? direct_.get() : cached_.get();
    const ssize_t got = uninterrupted([&] {
      return pread(file, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    });
    if (got == -EINVAL && direct) {
      direct = false;
      continue;
    }
    if (got < 0) return errnoError(static_cast<int>(-got), "read " + path_);
    // A direct read that stops inside of a page has met the end of the file.
    if (got == 0 || (direct && done + static_cast<std::size_t>(got) < least &&
                     static_cast<std::size_t>(got) % kDirectAlignment != 0)) {
      return Error{ErrorCode::kIoError, path_ + " has become shorter while it was read"};
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Status OpenedFile::write(std::span<const std::byte> from, std::uint64_t offset,
                         bool throughPageCache) const {
  bool direct = !throughPageCache && direct_ && isAligned(from.data(), offset) &&
                from.size() % kDirectAlignment == 0;
  for (std::size_t done = 0; done < from.size();) {
    const int file = direct ? direct_.get() : cached_.get();
    const ssize_t put = uninterrupted([&] {
      return pwrite(file, from.data() + done, from.size() - done,
                    static_cast<off_t>(offset + done));
    });
    if (put == -EINVAL && direct) {
      direct = false;
      continue;
    }
    if (put < 0) return errnoError(static_cast<int>(-put), "write " + path_);
    if (put == 0) return Error{ErrorCode::kIoError, "write " + path_ + ": nothing was written"};
    done += static_cast<std::size_t>(put);
    direct = direct && done % kDirectAlignment == 0;
  }
  return {};
}

Result<std::shared_ptr<DirectFile>> OpenedFile::directFile(DirectFiles& device) {
  const std::lock_guard lock(mutex_);
  if (!directFile_.has_value()) {
    if (direct_) {
      directFile_.emplace(device.open(direct_.get()));
    } else {
      directFile_.emplace(Error{ErrorCode::kUnsupported,
                                path_ + " is on a file system without O_DIRECT; ext4 and xfs on "
                                        "NVMe have it"});
    }
  }
  return *directFile_;
}

}  // namespace hearth
