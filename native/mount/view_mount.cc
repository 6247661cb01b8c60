#include "mount/view_mount.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <span>

#include "base/content_key.h"
#include "holder/mount_info.h"
#include "mount/idmapped_mount.h"

namespace hearth {
namespace {

constexpr char kPublishPrefix[] = "mount-";

bool sameFolder(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// Runs in a child process, as does everything that looks at a path. `mounted`: something other than
// FUSE is mounted there, whose stat() might not return.
Status bindHere(const std::string& view, const std::string& target, const MountInfoRow* mounted) {
  if (mounted != nullptr) {
    if (sameFolder(view, target)) return {};
    return Error{ErrorCode::kInUse, target + " is a mount point of " + mounted->source +
                                        " already; unmount it or choose another folder"};
  }
  struct stat about {};
  if (stat(target.c_str(), &about) != 0) return errnoError(errno, "the mount point " + target);
  if (!S_ISDIR(about.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "the mount point " + target + " is not a directory"};
  }
  Status idmapped = bindIdmapped(view, target);
  if (idmapped.ok() || idmapped.code() != ErrorCode::kUnsupported) return idmapped;
  // The bind is still read-only, which is enough except for containers that ask for a writable
  // mount.
  if (mount(view.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return errnoError(errno, "binding the view at " + target);
  }
  const unsigned long flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV;
  if (mount(nullptr, target.c_str(), nullptr, flags, nullptr) != 0) {
    const int error = errno;
    umount2(target.c_str(), MNT_DETACH);
    return errnoError(error, "making the view at " + target + " read-only");
  }
  return {};
}

Status unbindHere(const std::string& target) {
  if (umount2(target.c_str(), UMOUNT_NOFOLLOW) == 0) return {};
  const int error = errno;
  if (error == EBUSY) {
    return Error{ErrorCode::kInUse,
                 target + " is in use; close what is open there (fuser -m shows it)"};
  }
  return errnoError(error, "unmounting " + target);
}

}  // namespace

Status bindView(ChildCalls& calls, const std::string& view, const std::string& target) {
  const auto there = findMount(target);
  if (!there.ok()) return there.error();
  const MountInfoRow* const mounted = there->has_value() ? &**there : nullptr;
  if (mounted != nullptr && mounted->type.starts_with("fuse")) {
    return Error{ErrorCode::kInUse, target + " is a mount point of " + mounted->source +
                                        " already; unmount it or choose another folder"};
  }
  return calls.runStatus("binding the view at " + target,
                         [&] { return bindHere(view, target, mounted); });
}

Status unbindView(ChildCalls& calls, const std::string& target) {
  const auto there = findMount(target);
  if (!there.ok()) return there.error();
  if (!there->has_value()) return Error{ErrorCode::kNotFound, "nothing is mounted at " + target};
  return calls.runStatus("unmounting " + target, [&] { return unbindHere(target); });
}

std::string viewPublishName(const std::string& target) {
  return kPublishPrefix + hexOf(Sha256::of(std::as_bytes(std::span(target)))).substr(0, 32);
}

Result<BoundViews> findBoundViews(std::map<std::string, Sha256Digest> published) {
  const auto rows = readMountInfo();
  if (!rows.ok()) return rows.error();
  BoundViews views;
  for (const MountInfoRow& row : *rows) {
    const auto found = published.find(viewPublishName(row.target));
    if (found == published.end() || row.type.starts_with("fuse")) continue;
    views.mounted.emplace(row.target, found->second);
    published.erase(found);
  }
  for (const auto& [name, digest] : published) {
    if (name.starts_with(kPublishPrefix)) views.gone.push_back(name);
  }
  return views;
}

}  // namespace hearth
