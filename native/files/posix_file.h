// One open file of the kernel. Made by PosixFileSystem only.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "files/file_system.h"
#include "reactor/reactor.h"

namespace hearth {

[[nodiscard]] FileInfo fileInfoOf(const struct stat& from);

// Waits for the disk. Bytes read; fewer than asked at the end of the file. `path` is for messages.
[[nodiscard]] Result<std::size_t> readFrom(int descriptor, std::span<std::byte> into,
                                           std::uint64_t offset, const std::string& path);

class PosixFile final : public File {
 public:
  // Takes the descriptors over; `direct` (O_DIRECT, of the same file) is -1 for a file that is read
  // and written through the page cache. `path` is for messages. `reactor` must remain live while
  // this object is used; only the destructor may come later. `threads`: for blocking calls, as
  // long; null: the reactor's helpers.
  PosixFile(Reactor& reactor, ThreadPool* threads, int descriptor, int direct, std::string path)
      : reactor_(reactor),
        threads_(threads),
        descriptor_(descriptor),
        direct_(direct),
        path_(std::move(path)) {}
  ~PosixFile() override;
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override;
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override;
  Task<Status> syncData() override;
  Task<Status> truncate(std::uint64_t size) override;
  Task<Result<FileInfo>> info() override;
  Task<Status> lock() override;
  int descriptor() const override { return descriptor_; }
  std::size_t readInMemory(std::span<std::byte> into, std::uint64_t offset) override;
  Result<std::size_t> readWaiting(std::span<std::byte> into, std::uint64_t offset) override;
  bool inMemory(std::uint64_t offset, std::uint64_t length) override;
  Result<const std::byte*> map(std::uint64_t size) override;

 private:
  [[nodiscard]] bool mayGoDirect(const std::byte* memory, std::size_t size,
                                 std::uint64_t offset) const;

  // Like Operation::result. On our threads where the reactor has no asynchronous calls of files.
  [[nodiscard]] Task<int> perform(Operation operation);

  Reactor& reactor_;
  ThreadPool* const threads_;
  const int descriptor_;
  const int direct_;
  const std::string path_;
  std::mutex mapping_;  // guards the two below, until they are set
  const std::byte* mapped_ = nullptr;
  std::uint64_t mappedBytes_ = 0;
};

}  // namespace hearth
