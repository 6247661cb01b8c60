#include "loader/model_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

bool isSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

OwnedFd openForReading(const std::string& path, int flags) {
  return OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
}

// A descriptor with O_DIRECT of the same file, or none.
OwnedFd openDirect(const std::string& path, const struct stat& opened) {
  OwnedFd direct = openForReading(path, O_DIRECT);
  struct stat info {};
  if (direct && (fstat(direct.get(), &info) != 0 || !isSameFile(info, opened))) direct.reset();
  return direct;
}

}  // namespace

Result<std::shared_ptr<const ModelFile>> ModelFile::open(const std::string& path) {
  // A FIFO must not keep the caller waiting.
  OwnedFd file = openForReading(path, O_NONBLOCK);
  if (!file) return errnoError(errno, "open " + path);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return errnoError(errno, "stat " + path);
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, path + ": not a regular file"};
  }
  OwnedFd direct = openDirect(path, info);
  std::shared_ptr<ModelFile> opened(new ModelFile(path, std::move(file), std::move(direct), info));
  if (const Status status = opened->readHeader(); !status) return status.error().within(path);
  return std::shared_ptr<const ModelFile>(std::move(opened));
}

Status ModelFile::readHeader() {
  std::uint64_t length = 0;
  if (bytes_ < sizeof length) {
    return Error{ErrorCode::kCorrupt,
                 "shorter than the 8 bytes that a safetensors file begins with"};
  }
  if (Status read = this->read(reinterpret_cast<std::byte*>(&length), 0, sizeof length); !read) {
    return read;
  }
  if (length > kMaxHeaderBytes || length > bytes_ - kHeaderLengthBytes) {
    return Error{ErrorCode::kCorrupt, "a header of " + std::to_string(length) +
                                          " bytes in a file of " + std::to_string(bytes_) +
                                          "; the file is truncated or not a safetensors file"};
  }
  std::string json(length, '\0');
  if (Status read =
          this->read(reinterpret_cast<std::byte*>(json.data()), kHeaderLengthBytes, length);
      !read) {
    return read;
  }
  dataOffset_ = kHeaderLengthBytes + length;
  Result<SafetensorsHeader> header = parseSafetensorsHeader(json, bytes_ - dataOffset_);
  if (!header) return header.error();
  header_ = std::move(*header);
  return {};
}

bool ModelFile::isCached(std::uint64_t offset, std::uint64_t size) const {
  const std::uint64_t begin = offset / kDirectReadAlignment * kDirectReadAlignment;
  const std::uint64_t mappedBytes = offset + size - begin;
  void* const mapped =
      mmap(nullptr, mappedBytes, PROT_READ, MAP_SHARED, file_.get(), static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) return false;
  const auto pageBytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((mappedBytes + pageBytes - 1) / pageBytes);
  const bool isKnown = mincore(mapped, mappedBytes, pages.data()) == 0;
  munmap(mapped, mappedBytes);
  if (!isKnown) return false;
  for (const unsigned char page : pages) {
    if ((page & 1) == 0) return false;
  }
  return true;
}

Result<std::uint64_t> ModelFile::readDirect(std::byte* into, std::uint64_t offset,
                                            std::uint64_t size) const {
  const std::uint64_t whole =
      (size + kDirectReadAlignment - 1) / kDirectReadAlignment * kDirectReadAlignment;
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(direct_.get(), into + done, whole - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    // The device wants another alignment: the page cache serves the rest.
    if (got < 0 && errno == EINVAL) return done;
    if (got < 0) return errnoError(errno, "read " + path_);
    done += static_cast<std::uint64_t>(got);
    if (got == 0 || got % static_cast<ssize_t>(kDirectReadAlignment) != 0) break;
  }
  return std::min(done, size);
}

Status ModelFile::read(std::byte* into, std::uint64_t offset, std::uint64_t size) const {
  std::uint64_t done = 0;
  const bool isAligned = offset % kDirectReadAlignment == 0 &&
                         reinterpret_cast<std::uintptr_t>(into) % kDirectReadAlignment == 0;
  if (direct_ && isAligned && !isCached(offset, size)) {
    const Result<std::uint64_t> direct = readDirect(into, offset, size);
    if (!direct) return direct.error();
    done = *direct;
  }
  while (done < size) {
    const ssize_t got =
        pread(file_.get(), into + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errnoError(errno, "read " + path_);
    if (got == 0) {
      return Error{ErrorCode::kOriginChanged,
                   path_ + " became shorter while it was read; load it again"};
    }
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status ModelFile::checkUnchanged() const {
  struct stat now {};
  if (fstat(file_.get(), &now) != 0) return errnoError(errno, "stat " + path_);
  const bool isWritten = !isSameFile(now, opened_);
  if (!isWritten && stat(path_.c_str(), &now) == 0 && isSameFile(now, opened_)) return {};
  return Error{ErrorCode::kOriginChanged,
               path_ + (isWritten ? " was written" : " was replaced") +
                   " while it was loaded; load it again when its writer is done"};
}

}  // namespace hearth
