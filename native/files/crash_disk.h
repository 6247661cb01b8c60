// The disk under CrashFileSystem: nodes, what of them is synced, planned crashes and injected
// errors. Not thread-safe: CrashFileSystem holds its mutex around every call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "files/crash_file_system.h"

namespace hearth {

struct CrashNode {
  FileInfo::Kind kind = FileInfo::Kind::kFile;
  std::uint32_t mode = 0;
  std::uint32_t links = 0;
  std::uint64_t inode = 0;
  std::int64_t modifiedNs = 0;
  bool locked = false;

  // Files (and a symlink's target in `data`).
  std::vector<std::byte> data;
  std::vector<std::byte> synced;
  std::set<std::uint64_t> dirtyPages;
  std::set<std::uint64_t> writtenPages;  // that take up space; the others are holes
  bool mapped = false;
  std::vector<std::vector<std::byte>> retired;  // former `data` that may be mapped

  // Directories. An operation gives `name` a node (or none) and, in a rename, removes `removed`.
  struct Operation {
    std::string name;
    std::shared_ptr<CrashNode> node;
    std::string removed;
  };
  std::map<std::string, std::shared_ptr<CrashNode>> entries;
  std::map<std::string, std::shared_ptr<CrashNode>> syncedEntries;
  std::vector<Operation> pending;

  void resize(std::uint64_t size);
  void write(std::span<const std::byte> from, std::uint64_t offset);
  void syncData();
  void apply(Operation operation);
  [[nodiscard]] FileInfo info() const;
};

struct CrashFileSystem::Disk {
  // The next step for the caller of admit().
  enum class Verdict { kDo, kDoAndFail, kFail };
  struct Injection {
    FileCall call;
    std::uint64_t skip;
    std::uint64_t times;
    int error;
  };
  struct Place {
    std::shared_ptr<CrashNode> directory;
    std::string name;
  };

  std::mutex mutex;
  std::shared_ptr<CrashNode> root;
  std::uint64_t nextInode = 2;
  std::int64_t clockNs = 0;
  std::uint64_t operations = 0;
  std::uint64_t crashAt = ~std::uint64_t{0};
  std::vector<Injection> injections;
  SpaceInfo space{.totalBytes = std::uint64_t{1} << 40,
                  .freeBytes = std::uint64_t{1} << 40,
                  .totalInodes = 1'000'000,
                  .freeInodes = 1'000'000};

  Disk();
  [[nodiscard]] bool crashed() const { return operations > crashAt; }
  // Counts a call; `error` is set unless the verdict is kDo.
  [[nodiscard]] Verdict admit(FileCall call, bool changes, const std::string& path, Status& error);
  [[nodiscard]] std::shared_ptr<CrashNode> make(FileInfo::Kind kind, std::uint32_t mode);
  // The node of an absolute path; kNotFound.
  [[nodiscard]] Result<std::shared_ptr<CrashNode>> find(const std::string& path) const;
  // The directory that has or would have the path's last name.
  [[nodiscard]] Result<Place> place(const std::string& path) const;
  // A copy in which `survives(n)` chooses among n + 1 possibilities how much of something unsynced
  // is left.
  template <class Chooser>
  [[nodiscard]] std::shared_ptr<Disk> copy(Chooser&& choose) const;
};

}  // namespace hearth
