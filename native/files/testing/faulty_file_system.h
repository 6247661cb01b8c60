// The kernel's files, where a test has every call of one disk hang or fail: all that lies below one
// path. For tests.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "files/disk_watch.h"
#include "files/posix_file_system.h"
#include "reactor/reactor.h"

namespace hearth::testing_support {

using DiskCall = DiskOperation;

// Any thread.
class DiskFaults {
 public:
  explicit DiskFaults(std::string below) : below_(std::move(below)) {}

  // Calls of these kinds end with errno `error`; 0: they work again.
  void refuse(std::vector<DiskCall> calls, int error) {
    for (const DiskCall call : calls) errors_[static_cast<std::size_t>(call)] = error;
  }
  // As a disk that the kernel has mounted read-only.
  void setReadOnly(bool readOnly) {
    refuse({DiskCall::kOpenToWrite, DiskCall::kWrite, DiskCall::kTruncate, DiskCall::kRename,
            DiskCall::kLink, DiskCall::kUnlink, DiskCall::kMakeDirectory, DiskCall::kChangeMode},
           readOnly ? EROFS : 0);
  }
  // The disk has no free space.
  void fill(bool full) { full_ = full; }
  // Calls of these kinds wait until resume().
  void hang(std::vector<DiskCall> calls) {
    for (const DiskCall call : calls) hung_[static_cast<std::size_t>(call)] = true;
  }
  void resume() {
    for (std::atomic<bool>& each : hung_) each = false;
  }

  // Calls that had to wait for resume().
  [[nodiscard]] int waits() const { return waits_; }
  void noteWait() { ++waits_; }

  [[nodiscard]] bool isFull() const { return full_; }
  [[nodiscard]] bool covers(const std::string& path) const { return path.starts_with(below_); }
  [[nodiscard]] bool hangs(DiskCall call) const { return hung_[static_cast<std::size_t>(call)]; }
  [[nodiscard]] int error(DiskCall call) const { return errors_[static_cast<std::size_t>(call)]; }

 private:
  const std::string below_;
  std::atomic<int> errors_[kDiskOperations]{};
  std::atomic<bool> hung_[kDiskOperations]{};
  std::atomic<bool> full_{false};
  std::atomic<int> waits_{0};
};

// A file, or a file system, and what befalls its calls.
class FaultyCalls {
 public:
  FaultyCalls(Reactor& reactor, std::shared_ptr<DiskFaults> faults)
      : reactor_(reactor), faults_(std::move(faults)) {}

  template <class T>
  Task<T> pass(DiskCall call, Task<T> work) const {
    if (faults_->hangs(call)) faults_->noteWait();
    while (faults_->hangs(call)) co_await reactor_.sleep(kLook);
    if (const int error = faults_->error(call)) co_return errnoError(error, "the disk of the test");
    co_return co_await work;
  }
  template <class T>
  Task<T> passAt(const std::string& path, DiskCall call, Task<T> work) const {
    return faults_->covers(path) ? pass(call, std::move(work)) : std::move(work);
  }
  // Blocks; any thread.
  [[nodiscard]] Status wait(DiskCall call) const {
    if (faults_->hangs(call)) faults_->noteWait();
    while (faults_->hangs(call)) std::this_thread::sleep_for(kLook);
    const int error = faults_->error(call);
    return error == 0 ? Status() : Status(errnoError(error, "the disk of the test"));
  }
  [[nodiscard]] const DiskFaults& faults() const { return *faults_; }

 private:
  static constexpr auto kLook = std::chrono::milliseconds(2);
  Reactor& reactor_;
  const std::shared_ptr<DiskFaults> faults_;
};

class FaultyFile final : public File {
 public:
  FaultyFile(std::unique_ptr<File> file, FaultyCalls calls)
      : file_(std::move(file)), calls_(std::move(calls)) {}

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    return calls_.pass(DiskCall::kRead, file_->readAt(into, offset));
  }
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    return calls_.pass(DiskCall::kWrite, file_->writeAt(from, offset));
  }
  Task<Status> syncData() override { return calls_.pass(DiskCall::kSync, file_->syncData()); }
  Task<Status> truncate(std::uint64_t size) override {
    return calls_.pass(DiskCall::kTruncate, file_->truncate(size));
  }
  Task<Result<FileInfo>> info() override { return calls_.pass(DiskCall::kInfo, file_->info()); }
  Task<Status> lock() override { return file_->lock(); }
  [[nodiscard]] int descriptor() const override { return file_->descriptor(); }
  std::size_t readInMemory(std::span<std::byte> into, std::uint64_t offset) override {
    return calls_.faults().hangs(DiskCall::kRead) ? 0 : file_->readInMemory(into, offset);
  }
  Result<std::size_t> readWaiting(std::span<std::byte> into, std::uint64_t offset) override {
    const Status here = calls_.wait(DiskCall::kRead);
    if (!here.ok()) return here.error();
    return file_->readWaiting(into, offset);
  }
  bool inMemory(std::uint64_t offset, std::uint64_t length) override {
    return !calls_.faults().hangs(DiskCall::kRead) && file_->inMemory(offset, length);
  }
  Result<const std::byte*> map(std::uint64_t size) override {
    const Status here = calls_.wait(DiskCall::kRead);
    if (!here.ok()) return here.error();
    return file_->map(size);
  }

 private:
  std::unique_ptr<File> file_;
  const FaultyCalls calls_;
};

class FaultyFileSystem final : public FileSystem {
 public:
  // `reactor` must remain live while this object is used.
  FaultyFileSystem(Reactor& reactor, std::shared_ptr<DiskFaults> faults)
      : reactor_(reactor), calls_(reactor, std::move(faults)), files_(reactor) {}
  FaultyFileSystem(Reactor& reactor, FaultyCalls calls, ThreadPool& threads)
      : reactor_(reactor), calls_(std::move(calls)), files_(reactor, threads) {}

  std::unique_ptr<FileSystem> onThreads(ThreadPool& threads) override {
    return std::make_unique<FaultyFileSystem>(reactor_, calls_, threads);
  }
  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override {
    const bool here = calls_.faults().covers(path);
    const DiskCall call = flags.write ? DiskCall::kOpenToWrite : DiskCall::kOpenToRead;
    Task<Result<std::unique_ptr<File>>> opening =
        calls_.passAt(path, call, files_.open(path, flags));
    Result<std::unique_ptr<File>> file = co_await opening;
    if (file.ok() && here) file = wrapped(std::move(*file));
    co_return file;
  }
  Result<std::unique_ptr<File>> openForReading(const std::string& path) override {
    if (!calls_.faults().covers(path)) return files_.openForReading(path);
    const Status here = calls_.wait(DiskCall::kOpenToRead);
    if (!here.ok()) return here.error();
    Result<std::unique_ptr<File>> file = files_.openForReading(path);
    if (file.ok()) file = wrapped(std::move(*file));
    return file;
  }
  Task<Status> rename(std::string from, std::string to) override {
    return calls_.passAt(from, DiskCall::kRename, files_.rename(from, std::move(to)));
  }
  Task<Status> link(std::string from, std::string to) override {
    return calls_.passAt(from, DiskCall::kLink, files_.link(from, std::move(to)));
  }
  Task<Status> symlink(std::string target, std::string path) override {
    return calls_.passAt(path, DiskCall::kLink, files_.symlink(std::move(target), path));
  }
  Task<Status> unlink(std::string path) override {
    return calls_.passAt(path, DiskCall::kUnlink, files_.unlink(path));
  }
  Task<Status> makeDirectory(std::string path, std::uint32_t mode) override {
    return calls_.passAt(path, DiskCall::kMakeDirectory, files_.makeDirectory(path, mode));
  }
  Task<Status> removeDirectory(std::string path) override {
    return calls_.passAt(path, DiskCall::kUnlink, files_.removeDirectory(path));
  }
  Task<Status> changeMode(std::string path, std::uint32_t mode) override {
    return calls_.passAt(path, DiskCall::kChangeMode, files_.changeMode(path, mode));
  }
  Task<Status> syncDirectory(std::string path) override {
    return calls_.passAt(path, DiskCall::kSyncDirectory, files_.syncDirectory(path));
  }
  Task<Result<std::vector<DirectoryEntry>>> list(std::string path, ListDetail detail) override {
    return calls_.passAt(path, DiskCall::kList, files_.list(path, detail));
  }
  Task<Result<FileInfo>> info(std::string path) override {
    return calls_.passAt(path, DiskCall::kInfo, files_.info(path));
  }
  Task<Result<SpaceInfo>> space(std::string path) override {
    const bool full = calls_.faults().covers(path) && calls_.faults().isFull();
    Task<Result<SpaceInfo>> asking = calls_.passAt(path, DiskCall::kSpace, files_.space(path));
    Result<SpaceInfo> space = co_await asking;
    if (space.ok() && full) space->freeBytes = 0;
    co_return space;
  }

 private:
  [[nodiscard]] Result<std::unique_ptr<File>> wrapped(std::unique_ptr<File> file) const {
    return std::unique_ptr<File>(std::make_unique<FaultyFile>(std::move(file), calls_));
  }

  Reactor& reactor_;
  const FaultyCalls calls_;
  PosixFileSystem files_;
};

}  // namespace hearth::testing_support
