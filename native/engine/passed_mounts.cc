#include "engine/passed_mounts.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "mount/idmapped_mount.h"

namespace hearth {
namespace {

Error cannot(const std::string& step) {
  return {ErrorCode::kUnsupported,
          "files cannot be passed to programs here (" + step + ": " + std::strerror(errno) + ")"};
}

std::string pointOf(std::uint64_t number) { return "/" + std::to_string(number); }

// Gives the calling thread a mount namespace that has one empty file system. Mounts of others are
// not kept in it: a file system that is unmounted elsewhere is free at once.
Status enterEmptyNamespace() {
  if (unshare(CLONE_NEWNS) != 0) return cannot("unshare");
  if (mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return cannot("private mounts");
  // A folder that is there wherever this process runs.
  constexpr const char* kFolder = "/proc";
  if (mount("hearth", kFolder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") != 0)
    return cannot("tmpfs");
  if (chdir(kFolder) != 0 || syscall(SYS_pivot_root, ".", ".") != 0) return cannot("pivot_root");
  if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0) return cannot("leave the former root");
  return {};
}

Status attach(int tree, const std::string& target) {
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, target.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0)
    return cannot("move_mount");
  return {};
}

bool isRegularFile(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

}  // namespace

Result<std::unique_ptr<PassedMounts>> PassedMounts::create() {
  std::unique_ptr<PassedMounts> mounts(new PassedMounts());
  mounts->thread_ = std::thread([running = mounts.get()] { running->work(); });
  pthread_setname_np(mounts->thread_.native_handle(), "hearth-passed");
  Status entered;
  mounts->perform([&entered] { entered = enterEmptyNamespace(); });
  if (!entered.ok()) return entered.error();
  return mounts;
}

PassedMounts::~PassedMounts() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PassedMounts::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !calls_.empty(); });
    if (calls_.empty()) return;
    const std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    lock.lock();
  }
}

void PassedMounts::post(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_all();
}

void PassedMounts::perform(const std::function<void()>& call) {
  bool done = false;
  post([&] {
    call();
    const std::lock_guard lock(mutex_);
    done = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done; });
}

Status PassedMounts::add(std::string path) {
  const Result<OwnedFd> tree = makeIdmapped(path);
  if (!tree.ok()) return tree.error();
  // Nobody owns files there, so their modes for others decide, also for root.
  if (faccessat(tree->get(), ".", X_OK, AT_EACCESS) != 0)
    return cannot("enter " + path + " as a user who does not own it");
  const std::string mounted = "/folder-" + std::to_string(folders_.size());
  Status attached;
  perform([&] {
    attached = mkdir(mounted.c_str(), 0700) == 0 ? attach(tree->get(), mounted) : cannot("mkdir");
  });
  if (attached.ok()) folders_.push_back({std::move(path), mounted});
  return attached;
}

const PassedMounts::Folder* PassedMounts::folderOf(std::string_view file) const {
  for (const Folder& folder : folders_) {
    const std::string& path = folder.path;
    if (file.size() > path.size() && file.starts_with(path) && file[path.size()] == '/')
      return &folder;
  }
  return nullptr;
}

Result<PassedMounts::Passed> PassedMounts::open(const std::string& file) {
  const Folder* const folder = folderOf(file);
  if (folder == nullptr)
    return Error{ErrorCode::kInvalidArgument, file + " lies in no folder that is passed"};
  const std::string source = folder->mounted + file.substr(folder->path.size());
  const std::uint64_t number = ++last_;
  Result<OwnedFd> opened = OwnedFd();
  perform([&] { opened = mountAndOpen(source, pointOf(number)); });
  if (!opened.ok()) return opened.error();
  return Passed{std::move(*opened), number};
}

Result<OwnedFd> PassedMounts::mountAndOpen(const std::string& source, const std::string& point) {
  OwnedFd tree(
      static_cast<int>(syscall(SYS_open_tree, AT_FDCWD, source.c_str(),
                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW)));
  if (!tree) return errnoError(errno, "open a file for a program of this node");
  if (!isRegularFile(tree.get()))
    return Error{ErrorCode::kInvalidArgument, "only regular files can be passed"};
  const OwnedFd under(::open(point.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!under) return errnoError(errno, "make the place of a mount");
  const Status attached = attach(tree.get(), point);
  if (!attached.ok()) {
    unlink(point.c_str());
    return attached.error();
  }
  OwnedFd opened(::open(point.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (opened) return opened;
  const Error error = errnoError(errno, "open a file for a program of this node");
  detach(point);
  return error;
}

void PassedMounts::detach(const std::string& point) {
  umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  unlink(point.c_str());
}

bool PassedMounts::isOpen(std::uint64_t number) {
  bool open = false;
  perform([&] {
    const std::string point = pointOf(number);
    open = umount2(point.c_str(), UMOUNT_NOFOLLOW) != 0 && errno == EBUSY;
    if (!open) unlink(point.c_str());
  });
  return open;
}

void PassedMounts::forget(std::uint64_t number) {
  post([number] { detach(pointOf(number)); });
}

}  // namespace hearth
