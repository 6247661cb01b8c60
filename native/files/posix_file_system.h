// The kernel's files. Reads, writes and syncs of data go through the reactor's back end (io_uring
// where there is one); calls on names run on the reactor's helper threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "reactor/reactor.h"

namespace hearth {

class PosixFileSystem final : public FileSystem {
 public:
  // `reactor` outlives this object and all Files opened by it, except that a File's destructor may
  // come later.
  explicit PosixFileSystem(Reactor& reactor);
  // Blocking calls run on `threads`, which must remain live while this object is used.
  PosixFileSystem(Reactor& reactor, ThreadPool& threads);

  std::unique_ptr<FileSystem> onThreads(ThreadPool& threads) override;
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
  Reactor& reactor_;
  ThreadPool* const threads_;  // null: the reactor's helpers
  const std::uint32_t umask_;  // of the process, read at construction
};

}  // namespace hearth
