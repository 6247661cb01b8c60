#include "engine/client_file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

namespace hearth {
namespace {

std::string pathTo(int file) { return "/proc/self/fd/" + std::to_string(file); }

Result<OwnedFd> openAgain(int file, int flags) {
  OwnedFd opened(::open(pathTo(file).c_str(), flags | O_CLOEXEC));
  if (!opened) return errnoError(errno, "opening a session file for writing");
  return opened;
}

}  // namespace

Status writeBytes(int file, std::uint64_t offset, const MemoryVector& bytes) {
  const Result<OwnedFd> target = openAgain(file, O_WRONLY);
  if (!target.ok()) return target.error();
  for (const MemorySlice& slice : bytes.slices()) {
    for (std::span<const std::byte> left = slice.bytes(); !left.empty();) {
      const ssize_t count =
          ::pwrite(target->get(), left.data(), left.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errnoError(errno, "writing a session file");
      left = left.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
  }
  return {};
}

Result<OwnedFd> makeStage(int file) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(pathTo(file).c_str(), path.data(), path.size());
  if (length < 0) return errnoError(errno, "finding a session file");
  const std::string named(path.data(), static_cast<std::size_t>(length));
  const std::string folder = named.substr(0, named.rfind('/'));
  OwnedFd stage(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!stage) return errnoError(errno, "making a file in " + folder);
  return stage;
}

Status copyBytes(int stage, int file, std::uint64_t offset, std::uint64_t length) {
  const Result<OwnedFd> target = openAgain(file, O_WRONLY);
  if (!target.ok()) return target.error();
  off_t from = 0;
  auto to = static_cast<off_t>(offset);
  while (length != 0) {
    const ssize_t count = ::copy_file_range(stage, &from, target->get(), &to, length, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "writing a session file");
    if (count == 0) return Error{ErrorCode::kIoError, "a file that clients write to was cut"};
    length -= static_cast<std::uint64_t>(count);
  }
  return {};
}

Status takeBack(int file, const ByteRanges& ranges, std::uint64_t size) {
  const Result<OwnedFd> target = openAgain(file, O_RDWR);
  if (!target.ok()) return target.error();
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  for (const auto& [begin, end] : ranges.ranges()) {
    if (::fallocate(target->get(), kHole, static_cast<off_t>(begin),
                    static_cast<off_t>(end - begin)) != 0)
      return errnoError(errno, "taking back what a client wrote");
  }
  const Result<std::uint64_t> now = sizeOf(file);
  if (!now.ok()) return now.error();
  if (*now > size && ::ftruncate(target->get(), static_cast<off_t>(size)) != 0)
    return errnoError(errno, "taking back what a client wrote");
  return {};
}

Result<std::uint64_t> sizeOf(int file) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return errnoError(errno, "looking at a session file");
  return static_cast<std::uint64_t>(about.st_size);
}

}  // namespace hearth
