#include "cache/directory_layout.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace hearth {
namespace {

// Sparse by more than any file system's metadata for it.
constexpr std::uint64_t kProbeBytes = 16 << 20;

// Each new directory is synced into its parent: else a power loss takes the whole cache.
Task<Status> makeWithParents(FileSystem& files, std::string path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    const Status made = co_await files.makeDirectory(part, 0755);
    if (made.ok()) {
      const Status synced =
          co_await files.syncDirectory(part.substr(0, std::max<std::size_t>(part.rfind('/'), 1)));
      if (!synced.ok()) co_return synced;
    } else if (made.code() != ErrorCode::kAlreadyExists) {
      co_return made;
    }
    if (slash == std::string::npos) co_return Status();
  }
}

Error missing(const std::string& path, const std::string& what, const Error& cause) {
  return {ErrorCode::kUnsupported, "cache directory " + path +
                                       ": its file system does not support " + what + " (" +
                                       cause.message + "); use ext4 or xfs"};
}

Task<Status> probe(FileSystem& files, std::string path, std::string name) {
  const auto file = co_await files.open(name, {.write = true, .create = true, .truncate = true});
  if (!file.ok()) co_return file.error().within("cache directory " + path);
  const Status stretched = co_await (*file)->truncate(kProbeBytes);
  if (!stretched.ok()) co_return missing(path, "sparse files", stretched.error());
  const Result<FileInfo> info = co_await (*file)->info();
  if (!info.ok()) co_return info.error();
  if (info->allocated >= kProbeBytes) {
    co_return missing(path, "sparse files", {ErrorCode::kUnsupported, "a hole took up space"});
  }
  const auto mapped = (*file)->map(kProbeBytes);
  if (!mapped.ok()) co_return missing(path, "memory mappings", mapped.error());
  const Status linked = co_await files.link(name, name + ".link");
  if (!linked.ok()) co_return missing(path, "hard links", linked.error());
  co_return Status();
}

}  // namespace

std::string folderName(std::size_t firstByte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {kDigits[firstByte >> 4], kDigits[firstByte & 15]};
}

Task<Status> makeLayout(FileSystem& files, std::string path) {
  if (path.empty() || path[0] != '/') {
    co_return Error{ErrorCode::kInvalidArgument,
                    "cache directory '" + path + "' is not an absolute path"};
  }
  const Result<FileInfo> there = co_await files.info(path);
  if (there.code() == ErrorCode::kNotFound) {
    const Status made = co_await makeWithParents(files, path);
    if (!made.ok()) co_return made.error().within("cache directory");
  } else if (!there.ok()) {
    co_return there.error().within("cache directory");
  }
  for (const char* const name : {"/objects", "/manifests", "/views", "/published"}) {
    const Status made = co_await files.makeDirectory(path + name, 0755);
    if (!made.ok() && made.code() != ErrorCode::kAlreadyExists)
      co_return made.error().within("cache directory");
  }
  const std::string objects = path + "/objects";
  const auto listed = co_await files.list(objects, ListDetail::kKinds);
  if (!listed.ok()) co_return listed.error();
  std::set<std::string> present;
  for (const DirectoryEntry& entry : *listed) present.insert(entry.name);
  for (std::size_t folder = 0; folder < 256; ++folder) {
    if (present.contains(folderName(folder))) continue;
    const Status made = co_await files.makeDirectory(objects + "/" + folderName(folder), 0755);
    if (!made.ok()) co_return made.error().within("cache directory");
  }
  const Status objectsSynced = co_await files.syncDirectory(objects);
  if (!objectsSynced.ok()) co_return objectsSynced;
  co_return co_await files.syncDirectory(path);
}

Task<Result<std::unique_ptr<File>>> lockDirectory(FileSystem& files, std::string path) {
  auto file = co_await files.open(path + "/lock", {.write = true, .create = true});
  if (!file.ok()) co_return file.error();
  const Status locked = co_await (*file)->lock();
  if (locked.code() == ErrorCode::kInUse) {
    std::string text(32, ' ');
    const Result<std::size_t> count =
        co_await (*file)->readAt(std::as_writable_bytes(std::span(text)), 0);
    std::string process;
    for (std::size_t i = 0;
         count.ok() && i < *count && std::isdigit(static_cast<unsigned char>(text[i])); ++i) {
      process += text[i];
    }
    co_return Error{ErrorCode::kInUse, "cache directory " + path + " is used by another agent" +
                                           (process.empty() ? "" : " (process " + process + ")") +
                                           "; stop it or choose another directory"};
  }
  if (!locked.ok()) co_return locked.error();
  const std::string process = std::to_string(getpid()) + "\n";
  Status written = co_await (*file)->truncate(0);
  if (written.ok()) written = co_await (*file)->writeAt(std::as_bytes(std::span(process)), 0);
  if (!written.ok()) co_return written.error();
  co_return std::move(file);
}

Task<Status> checkFeatures(FileSystem& files, std::string path) {
  const std::string name = path + "/.probe";
  (void)co_await files.unlink(name + ".link");  // left by a crash
  const Status supported = co_await probe(files, path, name);
  (void)co_await files.unlink(name + ".link");
  (void)co_await files.unlink(name);
  co_return supported;
}

Task<Status> removeTree(FileSystem& files, std::string path) {
  const auto entries = co_await files.list(path, ListDetail::kKinds);
  if (entries.code() == ErrorCode::kNotFound) co_return Status();
  if (!entries.ok()) co_return entries.error();
  const Status writable = co_await files.changeMode(path, 0700);
  if (!writable.ok()) co_return writable;
  for (const DirectoryEntry& entry : *entries) {
    const std::string name = path + "/" + entry.name;
    const Status removed =
        co_await (entry.info.kind == FileInfo::Kind::kDirectory ? removeTree(files, name)
                                                                : files.unlink(name));
    if (!removed.ok()) co_return removed;
  }
  co_return co_await files.removeDirectory(path);
}

Task<Status> replaceFile(FileSystem& files, std::string folder, std::string name,
                         std::vector<std::byte> bytes) {
  const std::string aside = folder + "/.tmp-" + name;
  const auto file =
      co_await files.open(aside, {.write = true, .create = true, .truncate = true, .mode = 0644});
  if (!file.ok()) co_return file.error();
  Status done = co_await (*file)->writeAt(bytes, 0);
  if (done.ok()) done = co_await (*file)->syncData();
  if (!done.ok()) co_return done;
  done = co_await files.rename(aside, folder + "/" + name);
  if (!done.ok()) co_return done;
  co_return co_await files.syncDirectory(folder);
}

Task<Result<std::vector<std::byte>>> readFile(FileSystem& files, std::string path,
                                              std::size_t mostBytes) {
  const auto file = co_await files.open(path, {});
  if (!file.ok()) co_return file.error();
  const Result<FileInfo> info = co_await (*file)->info();
  if (!info.ok()) co_return info.error();
  if (info->size > mostBytes) {
    co_return Error{ErrorCode::kInvalidArgument,
                    path + " is longer than " + std::to_string(mostBytes) + " bytes"};
  }
  std::vector<std::byte> bytes(info->size);
  const Result<std::size_t> count = co_await (*file)->readAt(bytes, 0);
  if (!count.ok()) co_return count.error();
  bytes.resize(*count);
  co_return std::move(bytes);
}

}  // namespace hearth
