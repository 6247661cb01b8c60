#include "sessions/session_files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <span>

namespace hearth {
namespace {

constexpr std::string_view kAside = ".tmp-";
constexpr std::string_view kSynced = "-synced";
constexpr std::string_view kSpare = "spare-";

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

std::string firstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string hexOfNumber(std::uint64_t number) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, number, 16);
  return {digits, end.ptr};
}

// The next field of a name, which '-' or the end of the name ends.
std::optional<std::uint64_t> takeNumber(std::string_view& text) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (end.ec != std::errc() || end.ptr == text.data()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  if (text.empty()) return number;
  if (text.front() != '-') return std::nullopt;
  text.remove_prefix(1);
  return number;
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

timespec timeOf(std::optional<std::int64_t> ns) {
  if (!ns) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  std::int64_t seconds = *ns / 1'000'000'000, rest = *ns % 1'000'000'000;
  if (rest < 0) {
    rest += 1'000'000'000;
    --seconds;
  }
  return {.tv_sec = seconds, .tv_nsec = rest};
}

// Paths of the folder's entries whose names begin so.
std::vector<std::string> entriesOf(const std::string& folder, std::string_view prefix) {
  std::error_code error;
  std::vector<std::string> found;
  const auto end = std::filesystem::directory_iterator();
  for (std::filesystem::directory_iterator at(folder, error); !error && at != end;
       at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) found.push_back(at->path().string());
  }
  return found;
}

std::string pathOfSpare(const std::string& folder, std::uint64_t inode) {
  return folder + "/" + std::string(kSpare) + hexOfNumber(inode);
}

std::string pathOfDescriptor(int file) { return "/proc/self/fd/" + std::to_string(file); }

Result<OwnedFd> opened(const std::string& path, int flags) {
  OwnedFd file(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!file) return errnoError(errno, "opening the session file " + path);
  return file;
}

// Of one call that notes its progress: a slow disk takes less than a second for them.
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

Status copyBytes(int from, int to, std::uint64_t length, const std::string& path,
                 Progress& progress) {
  if (::ioctl(to, FICLONE, from) == 0) {
    // The other file may be longer by now.
    if (::ftruncate(to, static_cast<off_t>(length)) == 0) return {};
    return errnoError(errno, "cutting the session file " + path);
  }
  off_t in = 0, out = 0;
  while (static_cast<std::uint64_t>(out) < length) {
    const ssize_t count = ::copy_file_range(
        from, &in, to, &out, std::min(kPieceBytes, length - static_cast<std::uint64_t>(out)), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "copying into the session file " + path);
    if (count == 0)
      return Error{ErrorCode::kConflict, path + ": the file to copy is shorter than published"};
    progress.moved();
  }
  return {};
}

}  // namespace

std::string textOf(const SessionName& name) {
  return hexOfNumber(static_cast<std::uint64_t>(name.inode)) + "-" +
         hexOfNumber(static_cast<std::uint64_t>(name.session)) + "-" +
         hexOfNumber(static_cast<std::uint64_t>(name.base.session)) + "-" +
         hexOfNumber(name.base.counter);
}

std::optional<SessionName> parseSessionName(std::string_view text) {
  const std::string_view all = text;
  SessionName name;
  const auto inode = takeNumber(text), session = takeNumber(text), base = takeNumber(text),
             counter = takeNumber(text);
  if (!inode || !session || !base || !counter || *counter > 0xffffffff) return std::nullopt;
  name.inode = tree::InodeId{*inode};
  name.session = tree::SessionId{*session};
  name.base = {tree::SessionId{*base}, static_cast<std::uint32_t>(*counter)};
  return textOf(name) == all ? std::optional(name) : std::nullopt;
}

std::string textOf(const SealedName& name) {
  return hexOfNumber(static_cast<std::uint64_t>(name.session)) + "-" + hexOfNumber(name.first) +
         "-" + name.key.hex() + (name.synced ? std::string(kSynced) : std::string());
}

std::optional<SealedName> parseSealedName(std::string_view text) {
  const std::string_view all = text;
  const auto session = takeNumber(text), first = takeNumber(text);
  const bool synced = text.ends_with(kSynced);
  if (synced) text.remove_suffix(kSynced.size());
  const auto key = ContentKey::parse(text);
  if (!session || !first || *first > 0xffffffff || !key) return std::nullopt;
  const SealedName name{tree::SessionId{*session}, static_cast<std::uint32_t>(*first), *key,
                        synced};
  return textOf(name) == all ? std::optional(name) : std::nullopt;
}

Result<FileMark> markOf(int descriptor) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return errnoError(errno, "fstat of a session file");
  return FileMark{static_cast<std::uint64_t>(about.st_size), nanoseconds(about.st_mtim),
                  nanoseconds(about.st_ctim)};
}

std::string volumeFolder(const std::string& cacheDirectory, const std::string& volume) {
  return cacheDirectory + "/volumes/" + volume;
}

std::string sealedFolder(const std::string& volumeFolder) { return volumeFolder + "/sealed"; }

Status makeVolumeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(sealedFolder(folder), error);
  if (error) return errnoError(error.value(), "making " + folder);
  return {};
}

Result<bool> ranSince(const std::string& volumeFolder) {
  const std::string now = firstLineOf(kBootId);
  if (now.empty()) return Error{ErrorCode::kIoError, "the kernel's boot_id cannot be read"};
  return firstLineOf(volumeFolder + "/boot") == now;
}

Status noteRun(const std::string& volumeFolder) {
  const std::string path = volumeFolder + "/boot";
  std::ofstream file(path);
  file << firstLineOf(kBootId) << '\n';
  file.close();
  return file ? Status() : Error{ErrorCode::kIoError, "writing " + path};
}

Result<OwnedFd> makeSessionFile(const std::string& path) {
  return opened(path, O_RDONLY | O_CREAT | O_TRUNC);
}

Result<OwnedFd> openSessionFile(const std::string& path) { return opened(path, O_RDONLY); }

Result<SpareFile> makeSpareFile(const std::string& volumeFolder) {
  const Result<OwnedFd> made = opened(volumeFolder, O_RDWR | O_TMPFILE);
  if (!made.ok()) return made.error();
  struct stat about {};
  if (::fstat(made->get(), &about) != 0) return errnoError(errno, "fstat of a spare file");
  SpareFile spare;
  spare.path = pathOfSpare(volumeFolder, about.st_ino);
  const std::string from = pathOfDescriptor(made->get());
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, spare.path.c_str(), AT_SYMLINK_FOLLOW) != 0)
    return errnoError(errno, "naming " + spare.path);
  Result<OwnedFd> file = opened(spare.path, O_RDONLY);
  if (!file.ok()) return file.error();
  spare.file = std::move(*file);
  return spare;
}

Status nameSpareFile(const SpareFile& spare, const std::string& path) {
  if (const Status named = renameFile(spare.path, path); !named.ok()) return named;
  if (::futimens(spare.file.get(), nullptr) != 0)
    return errnoError(errno, "setting the times of " + path);
  return {};
}

std::string findSpareFile(const std::string& volumeFolder, std::uint64_t device,
                          std::uint64_t inode) {
  std::string path = pathOfSpare(volumeFolder, inode);
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return {};
  return about.st_dev == device && about.st_ino == inode ? path : std::string();
}

std::vector<std::string> spareFilesIn(const std::string& volumeFolder) {
  return entriesOf(volumeFolder, kSpare);
}

std::string asideOf(const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;
  return path.substr(0, name) + std::string(kAside) + path.substr(name);
}

void removeAside(const std::string& volumeFolder) {
  std::error_code error;
  for (const std::string& path : entriesOf(volumeFolder, kAside))
    std::filesystem::remove(path, error);
}

Status renameFile(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return errnoError(errno, "renaming " + from);
}

Status copySessionFile(const std::string& path, int from, std::uint64_t length,
                       Progress& progress) {
  const Result<OwnedFd> to = opened(path, O_WRONLY | O_CREAT | O_TRUNC);
  return to.ok() ? copyBytes(from, to->get(), length, path, progress) : to.error();
}

Status writeSessionFile(const std::string& path, std::uint64_t offset,
                        std::span<const std::byte> bytes) {
  const Result<OwnedFd> file = opened(path, O_WRONLY);
  if (!file.ok()) return file.error();
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(file->get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError(errno, "writing the session file " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status syncSessionFile(int descriptor, Progress& progress) {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return errnoError(errno, "stat of a session file");
  const auto size = static_cast<std::uint64_t>(about.st_size);
  // Writes the pages; fsync(2) then has the rest alone to do, and tells of errors.
  for (std::uint64_t at = 0; at < size; at += kPieceBytes) {
    (void)::sync_file_range(
        descriptor, static_cast<off_t>(at), static_cast<off_t>(kPieceBytes),
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    progress.moved();
  }
  if (::fsync(descriptor) == 0) return {};
  return errnoError(errno, "syncing a session file");
}

Result<std::uint64_t> sizeOfFile(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return errnoError(errno, "stat of " + path);
  return static_cast<std::uint64_t>(about.st_size);
}

Status setTimes(const std::string& path, std::optional<std::int64_t> accessedNs,
                std::optional<std::int64_t> modifiedNs) {
  const timespec times[2] = {timeOf(accessedNs), timeOf(modifiedNs)};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0) return {};
  return errnoError(errno, "setting the times of " + path);
}

std::int32_t cutSessionFile(const std::string& path, std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(INT64_MAX)) return EFBIG;
  return ::truncate(path.c_str(), static_cast<off_t>(size)) == 0 ? 0 : errno;
}

std::int32_t allocateIn(const std::string& path, std::uint32_t mode, std::uint64_t offset,
                        std::uint64_t length) {
  const Result<OwnedFd> file = opened(path, O_RDWR);
  if (!file.ok()) return EIO;
  const bool done = ::fallocate(file->get(), static_cast<int>(mode), static_cast<off_t>(offset),
                                static_cast<off_t>(length)) == 0;
  return done ? 0 : errno;
}

Status noWriterLeft(int descriptor) {
  // Without F_SETSIG who breaks the lease ends this process by SIGIO.
  if (::fcntl(descriptor, F_SETSIG, SIGURG) != 0)
    return errnoError(errno, "F_SETSIG of a session file");
  if (::fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) {
    if (errno == EAGAIN) return Error{ErrorCode::kConflict, "the file is open for writing"};
    return errnoError(errno, "F_SETLEASE of a session file");
  }
  (void)::fcntl(descriptor, F_SETLEASE, F_UNLCK);
  return {};
}

Result<FoundFiles> findFiles(const std::string& volumeFolder) {
  FoundFiles found;
  std::error_code error;
  const auto end = std::filesystem::directory_iterator();
  for (std::filesystem::directory_iterator at(volumeFolder, error); !error && at != end;
       at.increment(error)) {
    if (const auto name = parseSessionName(at->path().filename().string()))
      found.sessions.push_back(*name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return errnoError(error.value(), "reading " + volumeFolder);
  if (error) return found;
  for (std::filesystem::directory_iterator at(sealedFolder(volumeFolder), error);
       !error && at != end; at.increment(error)) {
    if (const auto name = parseSealedName(at->path().filename().string()))
      found.sealed.push_back(*name);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return errnoError(error.value(), "reading " + sealedFolder(volumeFolder));
  return found;
}

}  // namespace hearth
