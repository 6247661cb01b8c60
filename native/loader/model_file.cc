#include "loader/model_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/crc32c.h"
#include "memory/page_cache.h"

namespace hearth {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// Compared so often at most, when the file's time of change moves on and on.
constexpr int kMostComparisons = 8;

FileIdentity identityOf(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
          static_cast<std::uint64_t>(info.st_mtim.tv_sec),
          static_cast<std::uint64_t>(info.st_mtim.tv_nsec)};
}

bool isSameFile(const struct stat& a, const struct stat& b) {
  return identityOf(a) == identityOf(b);
}

// True: nothing but links, mode or owner has changed since `before`. A writer can put the time of
// modification back (utimensat(2)), but not the time of change.
bool isUnwritten(const struct stat& now, const struct stat& before) {
  const bool isTouched =
      now.st_ctim.tv_sec != before.st_ctim.tv_sec || now.st_ctim.tv_nsec != before.st_ctim.tv_nsec;
  const bool isExplained = now.st_nlink != before.st_nlink || now.st_mode != before.st_mode ||
                           now.st_uid != before.st_uid || now.st_gid != before.st_gid;
  return !isTouched || isExplained;
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
  // A variable may lie at the beginning of a page, to which others would be read, too.
  if (Status read = readThrough(reinterpret_cast<std::byte*>(&length), 0, sizeof length); !read) {
    return read;
  }
  if (length > kMaxHeaderBytes || length > bytes_ - kHeaderLengthBytes) {
    return Error{ErrorCode::kCorrupt, "a header of " + std::to_string(length) +
                                          " bytes in a file of " + std::to_string(bytes_) +
                                          "; the file is truncated or not a safetensors file"};
  }
  dataOffset_ = kHeaderLengthBytes + length;
  const Result<std::string> json = headerText();
  if (!json) return json.error();
  headerChecksum_ = crc32c(std::as_bytes(std::span(*json)));
  Result<SafetensorsHeader> header = parseSafetensorsHeader(*json, bytes_ - dataOffset_);
  if (!header) return header.error();
  header_ = std::move(*header);
  return {};
}

Result<std::string> ModelFile::headerText() const {
  std::string json(dataOffset_ - kHeaderLengthBytes, '\0');
  const Status read =
      readThrough(reinterpret_cast<std::byte*>(json.data()), kHeaderLengthBytes, json.size());
  if (!read) return read.error();
  return json;
}

bool ModelFile::isCached(std::uint64_t offset, std::uint64_t size) const {
  return arePagesCached(file_.get(), offset, size);
}

bool ModelFile::populateCached(const AlignedMapping& mapping, std::uint64_t offset,
                               std::uint64_t size) const {
  return populateCachedPages(file_.get(), mapping, offset, size);
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
  return readThrough(into + done, offset + done, size - done);
}

Status ModelFile::readThrough(std::byte* into, std::uint64_t offset, std::uint64_t size) const {
  for (std::uint64_t done = 0; done < size;) {
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

FileIdentity ModelFile::identity() const { return identityOf(opened_); }

Status ModelFile::checkLayout(const ModelLayout& layout) const {
  std::unordered_map<std::string_view, const TensorEntry*> mine;
  for (const TensorEntry& tensor : header_.tensors) mine.emplace(tensor.name, &tensor);
  bool isSame = layout.dataOffset == dataOffset_ && layout.fileBytes == bytes_ &&
                layout.tensors.size() == mine.size();
  for (const TensorEntry& tensor : layout.tensors) {
    const auto found = mine.find(tensor.name);
    isSame = isSame && found != mine.end() && *found->second == tensor;
  }
  if (isSame) return {};
  return Error{ErrorCode::kOriginChanged,
               path_ +
                   " has another header than when its metadata were read; load it again when "
                   "its writer is done"};
}

Error ModelFile::changed(std::string_view how) const {
  return {ErrorCode::kOriginChanged, path_ + " " + std::string(how) +
                                         " while it was loaded; load it again when its writer is "
                                         "done"};
}

Status ModelFile::checkUnchanged(const std::function<Result<bool>()>& equalsLoaded) const {
  struct stat before = opened_;
  for (int comparisons = 0; comparisons <= kMostComparisons; ++comparisons) {
    struct stat now {};
    if (fstat(file_.get(), &now) != 0) return errnoError(errno, "stat " + path_);
    struct stat named {};
    const bool isReplaced = stat(path_.c_str(), &named) != 0 || named.st_dev != opened_.st_dev ||
                            named.st_ino != opened_.st_ino;
    if (isReplaced) return changed("was replaced");
    if (!isSameFile(now, opened_)) break;
    if (isUnwritten(now, before)) return {};
    const Result<std::string> header = headerText();
    if (!header) return header.error();
    if (crc32c(std::as_bytes(std::span(*header))) != headerChecksum_) break;
    const Result<bool> equal = equalsLoaded();
    if (!equal) return equal.error();
    if (!*equal) break;
    before = now;  // a writer may have come meanwhile
  }
  return changed("was written");
}

}  // namespace hearth
