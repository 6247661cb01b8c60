// The kernel's files, on a disk that a test slows down, stops, or breaks. For tests.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "files/forwarding_file_system.h"
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

class HeldBackFile final : public ForwardingFile {
 public:
  HeldBackFile(std::unique_ptr<File> file, Reactor& reactor, std::shared_ptr<DiskControl> disk)
      : ForwardingFile(std::move(file)), reactor_(reactor), disk_(std::move(disk)) {}

  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    disk_->note(offset);
    if (disk_->pause.load().count() != 0) co_await reactor_.sleep(disk_->pause.load());
    while (disk_->stopped) co_await reactor_.sleep(std::chrono::milliseconds(2));
    if (disk_->broken)
      co_return Error{ErrorCode::kIoError, "the disk of the test fails, as it was set to"};
    disk_->written += from.size();
    co_return co_await below_->writeAt(from, offset);
  }

 private:
  Reactor& reactor_;
  std::shared_ptr<DiskControl> disk_;
};

// Only cache files and the logs of volumes are held back, not the log of the cache and what is
// written at the start.
class HeldBackFileSystem final : public ForwardingFileSystem {
 public:
  // `reactor` must remain live while this object is used.
  HeldBackFileSystem(Reactor& reactor, std::shared_ptr<DiskControl> disk)
      : ForwardingFileSystem(files_), reactor_(reactor), disk_(std::move(disk)), files_(reactor) {}
  HeldBackFileSystem(Reactor& reactor, std::shared_ptr<DiskControl> disk, ThreadPool& threads)
      : ForwardingFileSystem(files_),
        reactor_(reactor),
        disk_(std::move(disk)),
        files_(reactor, threads) {}

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

 private:
  Reactor& reactor_;
  std::shared_ptr<DiskControl> disk_;
  PosixFileSystem files_;
};

}  // namespace hearth::testing_support
