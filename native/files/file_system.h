// The seam under all file calls of the cache. Two implementations: PosixFileSystem (the kernel,
// through a reactor) and CrashFileSystem (in memory; forgets at any instant what was not synced).
// One object serves one reactor and is used on its thread only; "any thread" members are marked. A
// File may be destroyed on any thread, once none of its coroutines runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "reactor/task.h"

namespace hearth {

class ThreadPool;

struct FileInfo {
  enum class Kind { kFile, kDirectory, kSymlink, kOther };
  Kind kind = Kind::kFile;
  std::uint64_t size = 0;
  std::uint64_t allocated = 0;  // bytes on disk
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::uint32_t links = 0;
  std::uint32_t mode = 0;  // permission bits
  std::int64_t modifiedNs = 0;
  std::int64_t changedNs = 0;
};

struct DirectoryEntry {
  std::string name;
  FileInfo info;  // only `kind` unless list() was asked for all of it
};

enum class ListDetail : std::uint8_t { kKinds, kInfo };

struct SpaceInfo {
  std::uint64_t totalBytes = 0;
  std::uint64_t freeBytes = 0;  // for an unprivileged writer
  std::uint64_t totalInodes = 0;
  std::uint64_t freeInodes = 0;
};

struct OpenFlags {
  bool write = false;
  bool create = false;     // with `mode`, when absent
  bool exclusive = false;  // with create: kAlreadyExists when present
  bool truncate = false;
  // Whole pages (4096 bytes) of page-aligned memory at page-aligned offsets go past the page cache,
  // in both directions, where the file system can; all else goes through it.
  bool direct = false;
  std::uint32_t mode = 0600;  // of a created file, exactly: the process's umask is not applied
};

// An open file; closed by the destructor.
class File {
 public:
  virtual ~File() = default;
  // Bytes read; fewer than asked only at the end of the file.
  [[nodiscard]] virtual Task<Result<std::size_t>> readAt(std::span<std::byte> into,
                                                         std::uint64_t offset) = 0;
  // All of `from` or an error (then any part of it may have been written).
  [[nodiscard]] virtual Task<Status> writeAt(std::span<const std::byte> from,
                                             std::uint64_t offset) = 0;
  // Durable afterwards: all data written through any descriptor of this file before the call, and
  // its size.
  [[nodiscard]] virtual Task<Status> syncData() = 0;
  [[nodiscard]] virtual Task<Status> truncate(std::uint64_t size) = 0;
  [[nodiscard]] virtual Task<Result<FileInfo>> info() = 0;
  // Locks the file against other openers (other processes too) until it is closed. kInUse: locked
  // already.
  [[nodiscard]] virtual Task<Status> lock() = 0;
  // Any thread. The kernel's descriptor, for passthrough, sendfile and io_uring; -1 where there is
  // none.
  [[nodiscard]] virtual int descriptor() const = 0;
  // Any thread. Reads what of it is in memory, and never waits for a disk: how many bytes from
  // `offset` on; 0 also where the file system does not know.
  [[nodiscard]] virtual std::size_t readInMemory(std::span<std::byte> into,
                                                 std::uint64_t offset) = 0;
  // Any thread; waits for the disk. Bytes read; fewer than asked at the end of the file.
  [[nodiscard]] virtual Result<std::size_t> readWaiting(std::span<std::byte> into,
                                                        std::uint64_t offset) = 0;
  // Any thread. Whether these bytes of a mapped file are in memory: touching them hardly waits for
  // a disk. True where the kernel does not say.
  [[nodiscard]] virtual bool inMemory(std::uint64_t offset, std::uint64_t length) = 0;
  // Any thread. The first `size` bytes mapped shared and read-only; valid until the File goes.
  // Mapped once: later calls return the first mapping. The file must be that long and must not
  // shrink.
  [[nodiscard]] virtual Result<const std::byte*> map(std::uint64_t size) = 0;
  // As readAt and writeAt. `keep` owns the memory and lives until nothing can touch the memory any
  // more, even if the caller goes on before that (WatchedFileSystem).
  [[nodiscard]] virtual Task<Result<std::size_t>> readKept(std::span<std::byte> into,
                                                           std::uint64_t offset,
                                                           std::shared_ptr<const void> keep);
  [[nodiscard]] virtual Task<Status> writeKept(std::span<const std::byte> from,
                                               std::uint64_t offset,
                                               std::shared_ptr<const void> keep);
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  [[nodiscard]] virtual Task<Result<std::unique_ptr<File>>> open(std::string path,
                                                                 OpenFlags flags) = 0;
  // Any thread; blocks for a path look-up. Of the File only descriptor(), map(), the destructor
  // and what says "any thread" may be used.
  [[nodiscard]] virtual Result<std::unique_ptr<File>> openForReading(const std::string& path) = 0;
  // Replaces `to`.
  [[nodiscard]] virtual Task<Status> rename(std::string from, std::string to) = 0;
  [[nodiscard]] virtual Task<Status> link(std::string from, std::string to) = 0;
  [[nodiscard]] virtual Task<Status> symlink(std::string target, std::string path) = 0;
  [[nodiscard]] virtual Task<Status> unlink(std::string path) = 0;
  // `mode` exactly, as for files. kAlreadyExists when there is anything of that name.
  [[nodiscard]] virtual Task<Status> makeDirectory(std::string path, std::uint32_t mode) = 0;
  [[nodiscard]] virtual Task<Status> removeDirectory(std::string path) = 0;
  [[nodiscard]] virtual Task<Status> changeMode(std::string path, std::uint32_t mode) = 0;
  // Durable afterwards: the entries of this directory (creations, renames, links, unlinks).
  [[nodiscard]] virtual Task<Status> syncDirectory(std::string path) = 0;
  // In no order, without "." and "..".
  [[nodiscard]] virtual Task<Result<std::vector<DirectoryEntry>>> list(std::string path,
                                                                       ListDetail detail) = 0;
  // Of the entry itself: a symlink is not followed.
  [[nodiscard]] virtual Task<Result<FileInfo>> info(std::string path) = 0;
  [[nodiscard]] virtual Task<Result<SpaceInfo>> space(std::string path) = 0;
  // The same files, whose blocking calls run on `threads`, which must remain live while the result
  // or a file of it is used. Null: this file system makes none, and serves as it is.
  [[nodiscard]] virtual std::unique_ptr<FileSystem> onThreads(
      [[maybe_unused]] ThreadPool& threads) {
    return nullptr;
  }
};

}  // namespace hearth
