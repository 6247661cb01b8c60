// Files, and a file system, whose calls go to others: bases for those that change some of them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/file_system.h"

namespace hearth {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::shared_ptr<File> below) : below_(std::move(below)) {}

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    return below_->readAt(into, offset);
  }
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    return below_->writeAt(from, offset);
  }
  Task<Status> syncData() override { return below_->syncData(); }
  Task<Status> truncate(std::uint64_t size) override { return below_->truncate(size); }
  Task<Result<FileInfo>> info() override { return below_->info(); }
  Task<Status> lock() override { return below_->lock(); }
  [[nodiscard]] int descriptor() const override { return below_->descriptor(); }
  std::size_t readInMemory(std::span<std::byte> into, std::uint64_t offset) override {
    return below_->readInMemory(into, offset);
  }
  Result<std::size_t> readWaiting(std::span<std::byte> into, std::uint64_t offset) override {
    return below_->readWaiting(into, offset);
  }
  bool inMemory(std::uint64_t offset, std::uint64_t length) override {
    return below_->inMemory(offset, length);
  }
  Result<const std::byte*> map(std::uint64_t size) override { return below_->map(size); }

 protected:
  std::shared_ptr<File> below_;
};

class ForwardingFileSystem : public FileSystem {
 public:
  // `below` must remain live while this object, or a file of it, is used.
  explicit ForwardingFileSystem(FileSystem& below) : below_(below) {}

  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override {
    return below_.open(std::move(path), flags);
  }
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

 protected:
  FileSystem& below_;
};

}  // namespace hearth
