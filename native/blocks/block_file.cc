#include "blocks/block_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/owned_fd.h"

namespace hearth {
namespace {

constexpr std::uint64_t kPage = 4096;

bool mayGoDirect(const BlockTransfer& transfer) {
  return (reinterpret_cast<std::uintptr_t>(transfer.memory) | transfer.offset | transfer.size) %
             kPage ==
         0;
}

// File systems without O_DIRECT answer EINVAL at open(2).
Result<OwnedFd> openBlock(const BlockTransfer& transfer, int flags, bool direct) {
  OwnedFd file;
  if (direct && mayGoDirect(transfer)) {
    file.reset(open(transfer.path.c_str(), flags | O_CLOEXEC | O_DIRECT));
    if (file || errno != EINVAL) {
      if (!file) return errnoError(errno, "open " + transfer.path);
      return file;
    }
  }
  file.reset(open(transfer.path.c_str(), flags | O_CLOEXEC));
  if (!file) return errnoError(errno, "open " + transfer.path);
  return file;
}

Status checkSize(const struct stat& info, const BlockTransfer& transfer) {
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  if (transfer.offset <= bytes && transfer.size <= bytes - transfer.offset) return {};
  return Error{ErrorCode::kCorrupt, transfer.path + " has " + std::to_string(bytes) +
                                        " bytes, the block needs " +
                                        std::to_string(transfer.offset + transfer.size)};
}

Status checkSize(const OwnedFd& file, const BlockTransfer& transfer) {
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return errnoError(errno, "stat " + transfer.path);
  return checkSize(info, transfer);
}

// Calls `move` (pread or pwrite) until all bytes have moved.
template <class Move>
Status moveAll(const BlockTransfer& transfer, const char* call, Move move) {
  std::uint64_t done = 0;
  while (done < transfer.size) {
    const ssize_t moved = move(transfer.memory + done, transfer.size - done,
                               static_cast<off_t>(transfer.offset + done));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return errnoError(errno, std::string(call) + " " + transfer.path);
    if (moved == 0) {
      return Error{ErrorCode::kCorrupt, transfer.path + " became shorter during the transfer"};
    }
    done += static_cast<std::uint64_t>(moved);
  }
  return {};
}

}  // namespace

Status checkBlockSize(const BlockTransfer& transfer) {
  struct stat info {};
  if (stat(transfer.path.c_str(), &info) != 0) return errnoError(errno, "open " + transfer.path);
  return checkSize(info, transfer);
}

Status loadBlock(const BlockTransfer& transfer, bool direct) {
  const Result<OwnedFd> file = openBlock(transfer, O_RDONLY, direct);
  if (!file) return file.error();
  if (Status status = checkSize(*file, transfer); !status) return status;
  return moveAll(transfer, "read", [&](std::byte* memory, std::size_t size, off_t offset) {
    return pread(file->get(), memory, size, offset);
  });
}

Status dumpBlock(const BlockTransfer& transfer, bool direct) {
  const Result<OwnedFd> file = openBlock(transfer, O_WRONLY, direct);
  if (!file) return file.error();
  if (Status status = checkSize(*file, transfer); !status) return status;
  return moveAll(transfer, "write", [&](const std::byte* memory, std::size_t size, off_t offset) {
    return pwrite(file->get(), memory, size, offset);
  });
}

}  // namespace hearth
