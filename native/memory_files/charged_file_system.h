// Files of a memory folder (tmpfs) whose pages another process takes before they are written, so
// that its control group is charged for them and a page that is missing is an error of the write
// (kOutOfSpace), never a SIGBUS. All other calls go to the file system below.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "files/file_system.h"
#include "reactor/reactor.h"

namespace hearth {

class ChargedFileSystem final : public FileSystem {
 public:
  // Takes the pages of [offset, offset + bytes) of the file behind `descriptor`, inside the file,
  // and returns how many of the bytes lie in huge pages. Blocks; any thread. kOutOfSpace,
  // kUnavailable.
  using TakeRoom = std::function<Result<std::uint64_t>(int descriptor, std::uint64_t offset,
                                                       std::uint64_t bytes)>;

  // Room is taken in pieces of this size: each costs a call of another process.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

  // `below`, `reactor` and `blocking` must remain live while this object, or a file of it, is used.
  // `blocking` runs takeRoom.
  ChargedFileSystem(FileSystem& below, Reactor& reactor, ThreadPool& blocking, TakeRoom takeRoom)
      : below_(below), terms_{reactor, blocking, std::move(takeRoom)} {}

  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override;
  Result<std::unique_ptr<File>> openForReading(const std::string& path) override {
    return below_.openForReading(path);
  }
  Task<Status> rename(std::string from, std::string to) override {
    return below_.rename(std::move(from), std::move(to));
  }
  Task<Status> link(std::string from, std::string to) override {
    return below_.link(std::move(from), std::move(to));
  }
  Task<Status> symlink(std::string target, std::string path) override {
    return below_.symlink(std::move(target), std::move(path));
  }
  Task<Status> unlink(std::string path) override { return below_.unlink(std::move(path)); }
  Task<Status> makeDirectory(std::string path, std::uint32_t mode) override {
    return below_.makeDirectory(std::move(path), mode);
  }
  Task<Status> removeDirectory(std::string path) override {
    return below_.removeDirectory(std::move(path));
  }
  Task<Status> changeMode(std::string path, std::uint32_t mode) override {
    return below_.changeMode(std::move(path), mode);
  }
  Task<Status> syncDirectory(std::string path) override {
    return below_.syncDirectory(std::move(path));
  }
  Task<Result<std::vector<DirectoryEntry>>> list(std::string path, ListDetail detail) override {
    return below_.list(std::move(path), detail);
  }
  Task<Result<FileInfo>> info(std::string path) override { return below_.info(std::move(path)); }
  Task<Result<SpaceInfo>> space(std::string path) override { return below_.space(std::move(path)); }

 private:
  struct Terms {
    Reactor& reactor;
    ThreadPool& blocking;
    TakeRoom takeRoom;
  };
  class ChargedFile;

  FileSystem& below_;
  const Terms terms_;
};

}  // namespace hearth
