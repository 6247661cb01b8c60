#include "files/watched_file_system.h"

#include <algorithm>
#include <utility>

#include "files/forwarding_file_system.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

// Memory that no one keeps for a call is copied in pieces of this size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

template <class T>
struct Pending {
  explicit Pending(Reactor& reactor) : ended(reactor) {}
  Event ended;
  std::optional<T> value;
};

}  // namespace

// One watched disk as one reactor uses it. Calls that nobody waits for keep it.
struct WatchedFileSystem::Disk {
  Disk(Reactor& on, FileSystem& files, std::shared_ptr<DiskWatch> ofDisk, bool isTrial)
      : reactor(on),
        watch(std::move(ofDisk)),
        own(files.onThreads(watch->threads())),
        used(own != nullptr ? *own : files),
        trial(isTrial) {}
  Reactor& reactor;
  const std::shared_ptr<DiskWatch> watch;
  const std::unique_ptr<FileSystem> own;
  FileSystem& used;
  const bool trial;
};

// A call and the wait for it.
class WatchedFileSystem::Watched {
 public:
  // `keep` is let go when the call has ended.
  template <class T>
  static Task<T> run(std::shared_ptr<const Disk> disk, DiskOperation operation, Task<T> work,
                     std::shared_ptr<const void> keep) {
    DiskWatch& watch = *disk->watch;
    std::optional<DiskWatch::Call> call = watch.begin(operation, disk->trial);
    if (!call) co_return watch.error();
    const auto pending = std::make_shared<Pending<T>>(disk->reactor);
    spawn(carryOut(disk, std::move(*call), std::move(work), std::move(keep), pending));
    call.reset();
    Clock::duration waited{};
    while (!co_await pending->ended.waitUntil(Clock::now() + DiskWatch::kLook)) {
      waited += DiskWatch::kLook;
      watch.look();
      const bool stalls = disk->trial ? waited >= DiskWatch::kStall : watch.refuses(operation);
      if (stalls && !pending->ended.isSet()) co_return watch.error();
    }
    co_return std::move(*pending->value);
  }

 private:
  template <class T>
  static Task<void> carryOut(std::shared_ptr<const Disk> disk, DiskWatch::Call call, Task<T> work,
                             std::shared_ptr<const void> keep,
                             std::shared_ptr<Pending<T>> pending) {
    pending->value.emplace(co_await work);
    keep.reset();
    { const DiskWatch::Call ended = std::move(call); }
    pending->ended.set();
    disk.reset();
  }
};

class WatchedFileSystem::WatchedFile final : public ForwardingFile {
 public:
  WatchedFile(std::shared_ptr<const Disk> disk, std::unique_ptr<File> file)
      : ForwardingFile(std::move(file)), disk_(std::move(disk)) {}
  ~WatchedFile() override {
    // The kernel may wait for the disk to close it.
    if (disk_->watch->changesHang())
      disk_->watch->threads().run([last = std::move(below_)]() mutable { last.reset(); });
  }

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    for (std::size_t done = 0; done < into.size();) {
      const auto rest = into.subspan(done, std::min(into.size() - done, kPieceBytes));
      const auto copy = std::make_shared<std::vector<std::byte>>(rest.size());
      const Result<std::size_t> count = co_await readKept(*copy, offset + done, copy);
      if (!count.ok()) co_return count.error();
      std::copy_n(copy->begin(), *count, rest.begin());
      done += *count;
      if (*count < rest.size()) co_return done;
    }
    co_return into.size();
  }
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    for (std::size_t done = 0; done < from.size();) {
      const auto rest = from.subspan(done, std::min(from.size() - done, kPieceBytes));
      const auto copy = std::make_shared<std::vector<std::byte>>(rest.begin(), rest.end());
      const Status written = co_await writeKept(*copy, offset + done, copy);
      if (!written.ok()) co_return written;
      done += rest.size();
    }
    co_return Status();
  }
  Task<Result<std::size_t>> readKept(std::span<std::byte> into, std::uint64_t offset,
                                     std::shared_ptr<const void> keep) override {
    return watched(DiskOperation::kRead, below_->readAt(into, offset), std::move(keep));
  }
  Task<Status> writeKept(std::span<const std::byte> from, std::uint64_t offset,
                         std::shared_ptr<const void> keep) override {
    return watched(DiskOperation::kWrite, below_->writeAt(from, offset), std::move(keep));
  }
  Task<Status> syncData() override { return watched(DiskOperation::kSync, below_->syncData()); }
  Task<Status> truncate(std::uint64_t size) override {
    return watched(DiskOperation::kTruncate, below_->truncate(size));
  }
  Task<Result<FileInfo>> info() override { return watched(DiskOperation::kInfo, below_->info()); }

 private:
  // The call has the file, too.
  template <class T>
  Task<T> watched(DiskOperation operation, Task<T> work,
                  std::shared_ptr<const void> keep = nullptr) {
    auto all = std::make_shared<std::pair<std::shared_ptr<File>, std::shared_ptr<const void>>>(
        below_, std::move(keep));
    return Watched::run(disk_, operation, std::move(work), std::move(all));
  }

  const std::shared_ptr<const Disk> disk_;
};

WatchedFileSystem::WatchedFileSystem(Reactor& reactor, FileSystem& files,
                                     std::vector<std::shared_ptr<DiskWatch>> disks, Purpose purpose)
    : reactor_(reactor), files_(files), purpose_(purpose) {
  for (std::shared_ptr<DiskWatch>& disk : disks) {
    disks_.push_back(
        std::make_shared<Disk>(reactor_, files_, std::move(disk), purpose_ == Purpose::kTrial));
  }
}

std::shared_ptr<const WatchedFileSystem::Disk> WatchedFileSystem::diskOf(
    const std::string& path) const {
  const auto has = [&path](const auto& disk) {
    const std::string& folder = disk->watch->path();
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  };
  const auto found = std::ranges::find_if(disks_, has);
  return found == disks_.end() ? nullptr : *found;
}

FileSystem& WatchedFileSystem::filesAt(const std::string& path) const {
  const std::shared_ptr<const Disk> disk = diskOf(path);
  return disk == nullptr ? files_ : disk->used;
}

template <class T>
Task<T> WatchedFileSystem::watched(const std::string& path, DiskOperation operation, Task<T> work) {
  std::shared_ptr<const Disk> disk = diskOf(path);
  if (disk == nullptr) return work;
  return Watched::run(std::move(disk), operation, std::move(work), nullptr);
}

Task<Status> WatchedFileSystem::call(std::string path, DiskOperation operation,
                                     std::function<void()> work) {
  struct Wrap {
    static Task<Status> run(Reactor& reactor, ThreadPool* threads, std::function<void()> work) {
      auto call = [&work] { return work(), 0; };
      if (threads != nullptr) co_await reactor.offload(*threads, call);
      if (threads == nullptr) co_await reactor.offload(call);
      co_return Status();
    }
  };
  const std::shared_ptr<const Disk> disk = diskOf(path);
  ThreadPool* const threads = disk == nullptr ? nullptr : &disk->watch->threads();
  return watched(path, operation, Wrap::run(reactor_, threads, std::move(work)));
}

Task<Result<std::unique_ptr<File>>> WatchedFileSystem::open(std::string path, OpenFlags flags) {
  std::shared_ptr<const Disk> disk = diskOf(path);
  if (disk == nullptr) co_return co_await files_.open(std::move(path), flags);
  const DiskOperation operation =
      flags.write ? DiskOperation::kOpenToWrite : DiskOperation::kOpenToRead;
  Result<std::unique_ptr<File>> opened =
      co_await Watched::run(disk, operation, disk->used.open(std::move(path), flags), nullptr);
  if (!opened.ok()) co_return opened;
  co_return std::unique_ptr<File>(
      std::make_unique<WatchedFile>(std::move(disk), std::move(*opened)));
}

Result<std::unique_ptr<File>> WatchedFileSystem::openForReading(const std::string& path) {
  return filesAt(path).openForReading(path);
}

Task<Status> WatchedFileSystem::rename(std::string from, std::string to) {
  return watched(from, DiskOperation::kRename, filesAt(from).rename(from, std::move(to)));
}

Task<Status> WatchedFileSystem::link(std::string from, std::string to) {
  return watched(from, DiskOperation::kLink, filesAt(from).link(from, std::move(to)));
}

Task<Status> WatchedFileSystem::symlink(std::string target, std::string path) {
  return watched(path, DiskOperation::kLink, filesAt(path).symlink(std::move(target), path));
}

Task<Status> WatchedFileSystem::unlink(std::string path) {
  return watched(path, DiskOperation::kUnlink, filesAt(path).unlink(path));
}

Task<Status> WatchedFileSystem::makeDirectory(std::string path, std::uint32_t mode) {
  return watched(path, DiskOperation::kMakeDirectory, filesAt(path).makeDirectory(path, mode));
}

Task<Status> WatchedFileSystem::removeDirectory(std::string path) {
  return watched(path, DiskOperation::kUnlink, filesAt(path).removeDirectory(path));
}

Task<Status> WatchedFileSystem::changeMode(std::string path, std::uint32_t mode) {
  return watched(path, DiskOperation::kChangeMode, filesAt(path).changeMode(path, mode));
}

Task<Status> WatchedFileSystem::syncDirectory(std::string path) {
  return watched(path, DiskOperation::kSyncDirectory, filesAt(path).syncDirectory(path));
}

Task<Result<std::vector<DirectoryEntry>>> WatchedFileSystem::list(std::string path,
                                                                  ListDetail detail) {
  return watched(path, DiskOperation::kList, filesAt(path).list(path, detail));
}

Task<Result<FileInfo>> WatchedFileSystem::info(std::string path) {
  return watched(path, DiskOperation::kInfo, filesAt(path).info(path));
}

Task<Result<SpaceInfo>> WatchedFileSystem::space(std::string path) {
  return watched(path, DiskOperation::kSpace, filesAt(path).space(path));
}

}  // namespace hearth
