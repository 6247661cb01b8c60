#include "holder/stale_mounts.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "holder/fuse_mount.h"
#include "holder/mount_info.h"

namespace hearth {
namespace {

// `<folder>/<manifest>/<kind>`: what is deeper is no mount point of ours.
constexpr int kLevels = 2;

// Names only: nothing below is asked, so that a file system whose server is gone cannot hang.
std::vector<std::string> namesIn(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (directory == nullptr) return names;
  while (const dirent* const entry = readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

// Empty folders alone: rmdir refuses files, and what is still mounted.
void removeFolders(const std::string& folder, int levels) {
  for (const std::string& name : namesIn(folder)) {
    const std::string path = folder + "/" + name;
    if (levels > 1) removeFolders(path, levels - 1);
    rmdir(path.c_str());
  }
}

}  // namespace

std::vector<std::string> detachStaleMounts(ChildCalls& calls, const std::string& folder) {
  const auto canonical = canonicalDirectory(calls, folder);
  if (!canonical) {
    if (canonical.code() == ErrorCode::kNotFound) return {};
    return {canonical.error().message};
  }
  const auto rows = readMountInfo();
  if (!rows) return {rows.error().message};
  std::vector<std::string> lines;
  // The last made first: it lies over those before it, or below them.
  for (auto row = rows->rbegin(); row != rows->rend(); ++row) {
    if (!row->target.starts_with(*canonical + "/")) continue;
    // Fine when it went with the one that it lay below, or another process did it.
    if (const Status done = unmountFuse(calls, row->target, true); !done) {
      lines.push_back(done.error().message);
    }
  }
  removeFolders(*canonical, kLevels);
  return lines;
}

Status closeFolder(const std::string& folder) {
  if (chmod(folder.c_str(), S_IRWXU) != 0) return errnoError(errno, "close the folder " + folder);
  return {};
}

}  // namespace hearth
