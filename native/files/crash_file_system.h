// Files in memory that forget what was not synced, for tests of everything that must survive a
// crash.
//
// Contents after a power loss (crashCopy): of a file, its synced bytes, any subset of the 4 KiB
// pages written since, and either the synced or the latest size (lost pages between them read as
// zeros); of a directory, its synced entries and any prefix of the operations on it since. A rename
// inside one directory is one operation; one between two directories is an operation in each, and
// they survive or not independently. A killed process (killCopy) loses nothing.
//
// Any thread; calls are atomic. Coroutines never wait.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "files/file_system.h"

namespace hearth {

// Calls in which errors can be injected. kName: rename, link, symlink, unlink, directories, modes.
enum class FileCall : std::uint8_t {
  kOpen,
  kRead,
  kWrite,
  kSync,
  kTruncate,
  kName,
  kSyncDirectory
};

class CrashFileSystem final : public FileSystem {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  CrashFileSystem();
  ~CrashFileSystem() override;

  // The contents of the disk if the power fails now; the same seed gives the same copy. The copy
  // has no locks, injects no error and plans no crash.
  [[nodiscard]] std::unique_ptr<CrashFileSystem> crashCopy(std::uint64_t seed) const;
  [[nodiscard]] std::unique_ptr<CrashFileSystem> killCopy() const;

  // The disk goes away in the operation after the next `operations` ones that change something:
  // this operation and all later calls fail with kIoError. The choice of crashCopy includes the
  // operation's own effect; a sync then synced nothing.
  void crashAfter(std::uint64_t operations);
  [[nodiscard]] bool crashed() const;
  // Operations so far that changed or synced something.
  [[nodiscard]] std::uint64_t operations() const;

  // The nth call of this kind from now (1 is the next) and the `times` - 1 after it fail with errno
  // `error`, without effect.
  void inject(FileCall call, std::uint64_t nth, int error, std::uint64_t times = 1);
  // Sets the answer of space().
  void setSpace(SpaceInfo space);
  // Bit rot: inverts the byte at `offset`, on the disk too. Aborts when there is none.
  void corrupt(const std::string& path, std::uint64_t offset);

  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override;
  Result<std::unique_ptr<File>> openForReading(const std::string& path) override;
  Task<Status> rename(std::string from, std::string to) override;
  Task<Status> link(std::string from, std::string to) override;
  Task<Status> symlink(std::string target, std::string path) override;
  Task<Status> unlink(std::string path) override;
  Task<Status> makeDirectory(std::string path, std::uint32_t mode) override;
  Task<Status> removeDirectory(std::string path) override;
  Task<Status> changeMode(std::string path, std::uint32_t mode) override;
  Task<Status> syncDirectory(std::string path) override;
  Task<Result<std::vector<DirectoryEntry>>> list(std::string path, ListDetail detail) override;
  Task<Result<FileInfo>> info(std::string path) override;
  Task<Result<SpaceInfo>> space(std::string path) override;

 private:
  struct Disk;
  class OpenedFile;
  explicit CrashFileSystem(std::shared_ptr<Disk> disk);
  std::shared_ptr<Disk> disk_;
};

}  // namespace hearth
