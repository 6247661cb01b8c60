#include "cache/view_tree.h"

#include <string_view>
#include <vector>

namespace hearth {
namespace {

bool singleComponent(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

struct Folder {
  std::uint32_t index;
  std::string path;
};

// Makes everything of one kind below the folders; new directories are added to `folders`.
Task<Status> makeChildren(FileSystem& files, const Manifest& manifest, std::vector<Folder>& folders,
                          EntryKind kind,
                          const std::function<std::string(const ContentKey&)>& source) {
  for (std::size_t at = 0; at < folders.size(); ++at) {
    const ManifestEntry folder = manifest.entry(folders[at].index);
    for (std::uint32_t i = 0; i < folder.childCount; ++i) {
      const ManifestEntry child = manifest.entry(folder.firstChild + i);
      if (!singleComponent(child.name)) {
        co_return Error{ErrorCode::kCorrupt, "the manifest holds a name that is not a file name"};
      }
      if (child.kind != kind) continue;
      const std::string path = folders[at].path + "/" + std::string(child.name);
      if (kind == EntryKind::kDirectory) folders.push_back({child.index, path});
      const Status made = co_await (kind == EntryKind::kDirectory ? files.makeDirectory(path, 0700)
                                    : kind == EntryKind::kFile
                                        ? files.link(source(child.key), path)
                                        : files.symlink(std::string(child.symlinkTarget), path));
      if (!made.ok()) co_return made;
    }
  }
  co_return Status();
}

}  // namespace

Task<Status> writeViewTree(FileSystem& files, const Manifest& manifest, std::string root,
                           std::function<std::string(const ContentKey&)> source) {
  const Status made = co_await files.makeDirectory(root, 0700);
  if (!made.ok()) co_return made;
  std::vector<Folder> folders{{kRootEntry, root}};
  for (const EntryKind kind : {EntryKind::kDirectory, EntryKind::kFile, EntryKind::kSymlink}) {
    const Status written = co_await makeChildren(files, manifest, folders, kind, source);
    if (!written.ok()) co_return written;
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    const Status closed = co_await files.changeMode(folder->path, 0555);
    if (!closed.ok()) co_return closed;
    const Status synced = co_await files.syncDirectory(folder->path);
    if (!synced.ok()) co_return synced;
  }
  co_return Status();
}

}  // namespace hearth
