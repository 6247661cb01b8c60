// Files of which some lie on watched disks (DiskWatch). A call of a disk that hangs ends for its
// caller with kUnavailable, and goes on by itself with all that it needs. A call that ended so may
// still be carried out, but not after the disk was found to work again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "files/disk_watch.h"
#include "files/file_system.h"

namespace hearth {

class WatchedFileSystem final : public FileSystem {
 public:
  // `trial`: calls are made also while a disk hangs, and given up when they stall themselves.
  enum class Purpose : std::uint8_t { kUse, kTrial };

  // `reactor` and `files` must remain live while this object, or a file of it, is used, and until
  // the disks are idle.
  WatchedFileSystem(Reactor& reactor, FileSystem& files,
                    std::vector<std::shared_ptr<DiskWatch>> disks, Purpose purpose = Purpose::kUse);

  // On a thread of the disk that has `path`: `work`, which may block for it and counts as
  // `operation`. kUnavailable: the disk hangs; `work` may still run, so that it owns what it uses.
  [[nodiscard]] Task<Status> call(std::string path, DiskOperation operation,
                                  std::function<void()> work);

  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override;
  // Is not watched: on a thread of the disk, by call().
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
  class Watched;
  class WatchedFile;
  struct Disk;

  // Of the disk that has `path`; null: it is not watched.
  [[nodiscard]] std::shared_ptr<const Disk> diskOf(const std::string& path) const;
  [[nodiscard]] FileSystem& filesAt(const std::string& path) const;
  template <class T>
  [[nodiscard]] Task<T> watched(const std::string& path, DiskOperation operation, Task<T> work);

  Reactor& reactor_;
  FileSystem& files_;
  const Purpose purpose_;
  std::vector<std::shared_ptr<const Disk>> disks_;
};

}  // namespace hearth
