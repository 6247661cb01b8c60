#include "files/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "files/posix_file.h"

namespace hearth {
namespace {

// A Task around Reactor::offload, so that the callers need not be coroutines.
template <class F>
Task<std::invoke_result_t<F&>> onHelper(Reactor& reactor, ThreadPool* threads, F function) {
  if (threads != nullptr) co_return co_await reactor.offload(*threads, std::move(function));
  co_return co_await reactor.offload(std::move(function));
}

Status statusOf(int result, const char* call, const std::string& path) {
  if (result == 0) return Status();
  return errnoError(errno, std::string(call) + " " + path);
}

// umask(2) can only be read by setting it, which races with other threads; proc(5) shows it
// since 4.7.
std::uint32_t processUmask() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned mask = 0;
    if (std::sscanf(line.c_str(), "Umask: %o", &mask) == 1) return mask;
  }
  return 0777;  // unknown: every mode is then set by hand
}

int kernelFlags(const OpenFlags& flags) {
  int result = O_CLOEXEC | O_NOFOLLOW | (flags.write ? O_RDWR : O_RDONLY);
  if (flags.create) result |= O_CREAT;
  if (flags.exclusive) result |= O_EXCL;
  if (flags.truncate) result |= O_TRUNC;
  return result;
}

struct Descriptors {
  int descriptor = -1;
  int direct = -1;  // where it was asked for and the file system has it
};

Result<Descriptors> openDescriptors(const std::string& path, const OpenFlags& flags,
                                    std::uint32_t umask) {
  // Writable for its owner until both descriptors are there.
  const bool twice = flags.direct && flags.write;
  const std::uint32_t mode = flags.mode | (twice ? 0200u : 0u);
  Descriptors opened;
  const auto failed = [&](const char* call) {
    const int error = errno;
    if (opened.descriptor >= 0) ::close(opened.descriptor);
    if (opened.direct >= 0) ::close(opened.direct);
    return errnoError(error, std::string(call) + " " + path);
  };
  opened.descriptor = ::open(path.c_str(), kernelFlags(flags), mode);
  if (opened.descriptor < 0) return failed("open");
  if (flags.direct) {
    const OpenFlags again{.write = flags.write};
    opened.direct = ::open(path.c_str(), kernelFlags(again) | O_DIRECT);
    if (opened.direct < 0 && errno != EINVAL) return failed("open");
  }
  const bool loosened = mode != flags.mode || (flags.mode & umask) != 0;
  if (flags.create && loosened && fchmod(opened.descriptor, flags.mode) != 0)
    return failed("chmod");
  return opened;
}

FileInfo::Kind kindOf(unsigned char type) {
  switch (type) {
    case DT_REG:
      return FileInfo::Kind::kFile;
    case DT_DIR:
      return FileInfo::Kind::kDirectory;
    case DT_LNK:
      return FileInfo::Kind::kSymlink;
    default:
      return FileInfo::Kind::kOther;
  }
}

Result<std::vector<DirectoryEntry>> readDirectory(const std::string& path, ListDetail detail) {
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return errnoError(errno, "open directory " + path);
  std::vector<DirectoryEntry> entries;
  int error = 0;
  for (;;) {
    errno = 0;
    const dirent* const found = readdir(directory);
    if (found == nullptr) {
      error = errno;
      break;
    }
    std::string name = found->d_name;
    if (name == "." || name == "..") continue;
    FileInfo info;
    info.kind = kindOf(found->d_type);
    if (detail == ListDetail::kInfo || found->d_type == DT_UNKNOWN) {
      struct stat from {};
      if (fstatat(dirfd(directory), found->d_name, &from, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) continue;  // removed since it was listed
        error = errno;
        break;
      }
      info = fileInfoOf(from);
    }
    entries.push_back({std::move(name), info});
  }
  closedir(directory);
  if (error != 0) return errnoError(error, "list " + path);
  return entries;
}

}  // namespace

PosixFileSystem::PosixFileSystem(Reactor& reactor)
    : reactor_(reactor), threads_(nullptr), umask_(processUmask()) {}

PosixFileSystem::PosixFileSystem(Reactor& reactor, ThreadPool& threads)
    : reactor_(reactor), threads_(&threads), umask_(processUmask()) {}

std::unique_ptr<FileSystem> PosixFileSystem::onThreads(ThreadPool& threads) {
  return std::make_unique<PosixFileSystem>(reactor_, threads);
}

Task<Result<std::unique_ptr<File>>> PosixFileSystem::open(std::string path, OpenFlags flags) {
  const Result<Descriptors> opened = co_await onHelper(
      reactor_, threads_,
      [path, flags, mask = umask_] { return openDescriptors(path, flags, mask); });
  if (!opened.ok()) co_return opened.error();
  std::unique_ptr<File> file = std::make_unique<PosixFile>(reactor_, threads_, opened->descriptor,
                                                           opened->direct, std::move(path));
  co_return std::move(file);
}

Result<std::unique_ptr<File>> PosixFileSystem::openForReading(const std::string& path) {
  const Result<Descriptors> opened = openDescriptors(path, {}, 0);
  if (!opened.ok()) return opened.error();
  return std::unique_ptr<File>(
      std::make_unique<PosixFile>(reactor_, threads_, opened->descriptor, -1, path));
}

Task<Status> PosixFileSystem::rename(std::string from, std::string to) {
  return onHelper(reactor_, threads_, [from, to] {
    return statusOf(::rename(from.c_str(), to.c_str()), "rename", from + " to " + to);
  });
}

Task<Status> PosixFileSystem::link(std::string from, std::string to) {
  return onHelper(reactor_, threads_, [from, to] {
    return statusOf(::link(from.c_str(), to.c_str()), "link", from + " to " + to);
  });
}

Task<Status> PosixFileSystem::symlink(std::string target, std::string path) {
  return onHelper(reactor_, threads_, [target, path] {
    return statusOf(::symlink(target.c_str(), path.c_str()), "symlink", path);
  });
}

Task<Status> PosixFileSystem::unlink(std::string path) {
  return onHelper(reactor_, threads_,
                  [path] { return statusOf(::unlink(path.c_str()), "unlink", path); });
}

Task<Status> PosixFileSystem::makeDirectory(std::string path, std::uint32_t mode) {
  return onHelper(reactor_, threads_, [path, mode, mask = umask_] {
    Status made = statusOf(::mkdir(path.c_str(), mode), "mkdir", path);
    if (!made.ok() || (mode & mask) == 0) return made;
    return statusOf(::chmod(path.c_str(), mode), "chmod", path);
  });
}

Task<Status> PosixFileSystem::removeDirectory(std::string path) {
  return onHelper(reactor_, threads_,
                  [path] { return statusOf(::rmdir(path.c_str()), "rmdir", path); });
}

Task<Status> PosixFileSystem::changeMode(std::string path, std::uint32_t mode) {
  return onHelper(reactor_, threads_,
                  [path, mode] { return statusOf(::chmod(path.c_str(), mode), "chmod", path); });
}

Task<Status> PosixFileSystem::syncDirectory(std::string path) {
  return onHelper(reactor_, threads_, [path] {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return Status(errnoError(errno, "open directory " + path));
    const Status synced = statusOf(::fsync(descriptor), "fsync", path);
    ::close(descriptor);
    return synced;
  });
}

Task<Result<std::vector<DirectoryEntry>>> PosixFileSystem::list(std::string path,
                                                                ListDetail detail) {
  return onHelper(reactor_, threads_, [path, detail] { return readDirectory(path, detail); });
}

Task<Result<FileInfo>> PosixFileSystem::info(std::string path) {
  return onHelper(reactor_, threads_, [path]() -> Result<FileInfo> {
    struct stat from {};
    if (::lstat(path.c_str(), &from) != 0) return errnoError(errno, "stat " + path);
    return fileInfoOf(from);
  });
}

Task<Result<SpaceInfo>> PosixFileSystem::space(std::string path) {
  return onHelper(reactor_, threads_, [path]() -> Result<SpaceInfo> {
    struct statvfs from {};
    if (::statvfs(path.c_str(), &from) != 0) return errnoError(errno, "statvfs " + path);
    return SpaceInfo{.totalBytes = from.f_blocks * from.f_frsize,
                     .freeBytes = from.f_bavail * from.f_frsize,
                     .totalInodes = from.f_files,
                     .freeInodes = from.f_favail};
  });
}

}  // namespace hearth
