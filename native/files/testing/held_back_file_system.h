// The kernel's files, on a disk that a test slows down, stops, or breaks. For tests.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "files/posix_file_system.h"
#include "reactor/reactor.h"

namespace hearth::testing_support {

// Of all files of one agent. Any thread.
struct DiskControl {
  std::atomic<bool> stopped{false};  // writes wait until it goes on
  std::atomic<bool> broken{false};   // writes fail
  std::atomic<std::chrono::milliseconds> pause{std::chrono::milliseconds(0)};  // before each write
  std::atomic<std::uint64_t> written{0};

  // Where chunks were written, in the order in which their writes began.
  [[nodiscard]] std::vector<std::uint64_t> offsets() const {
    const std::lock_guard lock(mutex_);
    return offsets_;
  }
  void note(std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    offsets_.push_back(offset);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> offsets_;
};

class HeldBackFile final : public File {
 public:
  HeldBackFile(std::unique_ptr<File> file, Reactor& reactor, std::shared_ptr<DiskControl> disk)
      : file_(std::move(file)), reactor_(reactor), disk_(std::move(disk)) {}

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    return file_->readAt(into, offset);
  }
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    disk_->note(offset);
    if (disk_->pause.load().count() != 0) co_await reactor_.sleep(disk_->pause.load());
    while (disk_->stopped) co_await reactor_.sleep(std::chrono::milliseconds(2));
    if (disk_->broken)
      co_return Error{ErrorCode::kIoError, "the disk of the test fails, as it was set to"};
    disk_->written += from.size();
    co_return co_await file_->writeAt(from, offset);
  }
  Task<Status> syncData() override { return file_->syncData(); }
  Task<Status> truncate(std::uint64_t size) override { return file_->truncate(size); }
  Task<Result<FileInfo>> info() override { return file_->info(); }
  Task<Status> lock() override { return file_->lock(); }
  [[nodiscard]] int descriptor() const override { return file_->descriptor(); }
  std::size_t readInMemory(std::span<std::byte> into, std::uint64_t offset) override {
    return file_->readInMemory(into, offset);
  }
  Result<std::size_t> readWaiting(std::span<std::byte> into, std::uint64_t offset) override {
    return file_->readWaiting(into, offset);
  }
  bool inMemory(std::uint64_t offset, std::uint64_t length) override {
    return file_->inMemory(offset, length);
  }
  Result<const std::byte*> map(std::uint64_t size) override { return file_->map(size); }

 private:
  std::unique_ptr<File> file_;
  Reactor& reactor_;
  std::shared_ptr<DiskControl> disk_;
};

// Only cache files and the logs of volumes are held back, not the log of the cache and what is
// written at the start.
class HeldBackFileSystem final : public FileSystem {
 public:
  // `reactor` must remain live while this object is used.
  HeldBackFileSystem(Reactor& reactor, std::shared_ptr<DiskControl> disk)
      : reactor_(reactor), disk_(std::move(disk)), files_(reactor) {}
  HeldBackFileSystem(Reactor& reactor, std::shared_ptr<DiskControl> disk, ThreadPool& threads)
      : reactor_(reactor), disk_(std::move(disk)), files_(reactor, threads) {}

  std::unique_ptr<FileSystem> onThreads(ThreadPool& threads) override {
    return std::make_unique<HeldBackFileSystem>(reactor_, disk_, threads);
  }
  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override {
    const bool held = flags.write && (path.find("/objects/") != std::string::npos ||
                                      path.find("/volumes/") != std::string::npos);
    Result<std::unique_ptr<File>> file = co_await files_.open(std::move(path), flags);
    if (!file.ok() || !held) co_return file;
    co_return std::unique_ptr<File>(
        std::make_unique<HeldBackFile>(std::move(*file), reactor_, disk_));
  }
  Result<std::unique_ptr<File>> openForReading(const std::string& path) override {
    return files_.openForReading(path);
  }
  Task<Status> rename(std::string from, std::string to) override {
    return files_.rename(std::move(from), std::move(to));
  }
  Task<Status> link(std::string from, std::string to) override {
    return files_.link(std::move(from), std::move(to));
  }
  Task<Status> symlink(std::string target, std::string path) override {
    return files_.symlink(std::move(target), std::move(path));
  }
  Task<Status> unlink(std::string path) override { return files_.unlink(std::move(path)); }
  Task<Status> makeDirectory(std::string path, std::uint32_t mode) override {
    return files_.makeDirectory(std::move(path), mode);
  }
  Task<Status> removeDirectory(std::string path) override {
    return files_.removeDirectory(std::move(path));
  }
  Task<Status> changeMode(std::string path, std::uint32_t mode) override {
    return files_.changeMode(std::move(path), mode);
  }
  Task<Status> syncDirectory(std::string path) override {
    return files_.syncDirectory(std::move(path));
  }
  Task<Result<std::vector<DirectoryEntry>>> list(std::string path, ListDetail detail) override {
    return files_.list(std::move(path), detail);
  }
  Task<Result<FileInfo>> info(std::string path) override { return files_.info(std::move(path)); }
  Task<Result<SpaceInfo>> space(std::string path) override { return files_.space(std::move(path)); }

 private:
  Reactor& reactor_;
  std::shared_ptr<DiskControl> disk_;
  PosixFileSystem files_;
};

}  // namespace hearth::testing_support
