#include "files/crash_file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <random>
#include <unordered_map>

#include "files/crash_disk.h"

namespace hearth {
namespace {

using Kind = FileInfo::Kind;
using Node = std::shared_ptr<CrashNode>;

// Copies the tree below `from` as a power loss (choose) leaves it. Hard links stay links.
template <class Chooser>
Node copyNode(const Node& from, std::unordered_map<const CrashNode*, Node>& copies,
              Chooser& choose) {
  Node& known = copies[from.get()];
  if (known) return known;
  auto to = std::make_shared<CrashNode>();
  known = to;
  to->kind = from->kind;
  to->mode = from->mode;
  to->inode = from->inode;
  to->modifiedNs = from->modifiedNs;
  if (from->kind != Kind::kDirectory) {
    to->data = from->synced;
    if (from->kind == Kind::kSymlink || choose(1) == 1) to->data.resize(from->data.size());
    for (const std::uint64_t page : from->dirtyPages) {
      const std::uint64_t begin = page * CrashFileSystem::kPageBytes;
      const std::uint64_t end =
          std::min({begin + CrashFileSystem::kPageBytes, std::uint64_t{from->data.size()},
                    std::uint64_t{to->data.size()}});
      if (choose(1) == 1 && begin < end) {
        std::copy(from->data.begin() + static_cast<std::ptrdiff_t>(begin),
                  from->data.begin() + static_cast<std::ptrdiff_t>(end),
                  to->data.begin() + static_cast<std::ptrdiff_t>(begin));
      }
    }
    to->synced = to->data;
    for (const std::uint64_t page : from->writtenPages) {
      if (page * CrashFileSystem::kPageBytes < to->data.size()) to->writtenPages.insert(page);
    }
    return to;
  }
  auto survivors = from->syncedEntries;
  const std::uint64_t prefix = choose(from->pending.size());
  for (std::uint64_t i = 0; i < prefix; ++i) {
    const CrashNode::Operation& operation = from->pending[i];
    if (!operation.removed.empty()) survivors.erase(operation.removed);
    if (operation.node) {
      survivors[operation.name] = operation.node;
    } else {
      survivors.erase(operation.name);
    }
  }
  for (const auto& [name, node] : survivors) {
    const Node copied = copyNode(node, copies, choose);
    ++copied->links;
    to->entries.emplace(name, copied);
  }
  to->syncedEntries = to->entries;
  return to;
}

// Runs one change of names: `change` answers an errno or 0.
template <class Disk, class Change>
Status changeNames(Disk& disk, const std::string& path, Change change) {
  const std::lock_guard guard(disk.mutex);
  Status error;
  const auto verdict = disk.admit(FileCall::kName, true, path, error);
  if (verdict == Disk::Verdict::kFail) return error;
  const Status done = change();
  return verdict == Disk::Verdict::kDo ? done : error;
}

}  // namespace

template <class Chooser>
std::shared_ptr<CrashFileSystem::Disk> CrashFileSystem::Disk::copy(Chooser&& choose) const {
  auto to = std::make_shared<Disk>();
  std::unordered_map<const CrashNode*, Node> copies;
  to->root = copyNode(root, copies, choose);
  to->nextInode = nextInode;
  to->clockNs = clockNs;
  to->space = space;
  return to;
}

class CrashFileSystem::OpenedFile final : public File {
 public:
  OpenedFile(std::shared_ptr<Disk> disk, Node node, std::string path)
      : disk_(std::move(disk)), node_(std::move(node)), path_(std::move(path)) {}
  ~OpenedFile() override {
    const std::lock_guard guard(disk_->mutex);
    if (locks_) node_->locked = false;
  }

  Task<Result<std::size_t>> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    const std::lock_guard guard(disk_->mutex);
    Status error;
    if (disk_->admit(FileCall::kRead, false, path_, error) != Disk::Verdict::kDo)
      co_return error.error();
    if (offset >= node_->data.size()) co_return std::size_t{0};
    const std::size_t count = std::min<std::uint64_t>(into.size(), node_->data.size() - offset);
    std::copy_n(node_->data.begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
    co_return count;
  }
  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    co_return change(FileCall::kWrite, [&] { node_->write(from, offset); });
  }
  Task<Status> syncData() override {
    co_return change(FileCall::kSync, [&] { node_->syncData(); });
  }
  Task<Status> truncate(std::uint64_t size) override {
    co_return change(FileCall::kTruncate, [&] { node_->resize(size); });
  }
  Task<Result<FileInfo>> info() override {
    const std::lock_guard guard(disk_->mutex);
    co_return node_->info();
  }
  Task<Status> lock() override {
    const std::lock_guard guard(disk_->mutex);
    if (node_->locked) co_return Error{ErrorCode::kInUse, path_ + " is locked by another process"};
    locks_ = node_->locked = true;
    co_return Status();
  }
  int descriptor() const override { return -1; }
  Result<std::size_t> readWaiting(std::span<std::byte> into, std::uint64_t offset) override {
    return readInMemory(into, offset);
  }
  std::size_t readInMemory(std::span<std::byte> into, std::uint64_t offset) override {
    const std::lock_guard guard(disk_->mutex);
    if (offset >= node_->data.size()) return 0;
    const std::size_t count = std::min<std::uint64_t>(into.size(), node_->data.size() - offset);
    std::copy_n(node_->data.begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
    return count;
  }
  bool inMemory(std::uint64_t, std::uint64_t) override { return true; }
  Result<const std::byte*> map(std::uint64_t size) override {
    const std::lock_guard guard(disk_->mutex);
    if (size > node_->data.size()) return errnoError(EINVAL, "map " + path_);
    node_->mapped = true;
    return node_->data.data();
  }

 private:
  template <class Effect>
  Status change(FileCall call, Effect effect) {
    const std::lock_guard guard(disk_->mutex);
    Status error;
    const Disk::Verdict verdict = disk_->admit(call, true, path_, error);
    if (verdict == Disk::Verdict::kFail) return error;
    effect();
    node_->modifiedNs = ++disk_->clockNs;
    return verdict == Disk::Verdict::kDo ? Status() : error;
  }

  const std::shared_ptr<Disk> disk_;
  const Node node_;
  const std::string path_;
  bool locks_ = false;
};

CrashFileSystem::CrashFileSystem() : disk_(std::make_shared<Disk>()) {}
CrashFileSystem::CrashFileSystem(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
CrashFileSystem::~CrashFileSystem() = default;

std::unique_ptr<CrashFileSystem> CrashFileSystem::crashCopy(std::uint64_t seed) const {
  const std::lock_guard guard(disk_->mutex);
  std::mt19937_64 random(seed);
  const auto choose = [&random](std::uint64_t n) { return random() % (n + 1); };
  return std::unique_ptr<CrashFileSystem>(new CrashFileSystem(disk_->copy(choose)));
}

std::unique_ptr<CrashFileSystem> CrashFileSystem::killCopy() const {
  const std::lock_guard guard(disk_->mutex);
  const auto all = [](std::uint64_t n) { return n; };
  return std::unique_ptr<CrashFileSystem>(new CrashFileSystem(disk_->copy(all)));
}

void CrashFileSystem::crashAfter(std::uint64_t operations) {
  const std::lock_guard guard(disk_->mutex);
  disk_->crashAt = disk_->operations + operations;
}

bool CrashFileSystem::crashed() const {
  const std::lock_guard guard(disk_->mutex);
  return disk_->crashed();
}

std::uint64_t CrashFileSystem::operations() const {
  const std::lock_guard guard(disk_->mutex);
  return disk_->operations;
}

void CrashFileSystem::inject(FileCall call, std::uint64_t nth, int error, std::uint64_t times) {
  const std::lock_guard guard(disk_->mutex);
  disk_->injections.push_back({call, nth - 1, times, error});
}

void CrashFileSystem::setSpace(SpaceInfo space) {
  const std::lock_guard guard(disk_->mutex);
  disk_->space = space;
}

void CrashFileSystem::corrupt(const std::string& path, std::uint64_t offset) {
  const std::lock_guard guard(disk_->mutex);
  const Result<Node> node = disk_->find(path);
  if (!node.ok() || offset >= (*node)->data.size()) std::abort();
  (*node)->data[offset] ^= std::byte{0xff};
  if (offset < (*node)->synced.size()) (*node)->synced[offset] ^= std::byte{0xff};
}

Task<Result<std::unique_ptr<File>>> CrashFileSystem::open(std::string path, OpenFlags flags) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  const Result<Disk::Place> place = disk_->place(path);
  if (!place.ok()) co_return place.error();
  const auto found = place->directory->entries.find(place->name);
  const bool present = found != place->directory->entries.end();
  if (!present && !flags.create) co_return errnoError(ENOENT, "open " + path);
  if (present && flags.create && flags.exclusive) co_return errnoError(EEXIST, "open " + path);
  const bool changes = !present || flags.truncate;
  const Disk::Verdict verdict = disk_->admit(FileCall::kOpen, changes, path, error);
  if (verdict == Disk::Verdict::kFail) co_return error.error();
  Node node = present ? found->second : disk_->make(Kind::kFile, flags.mode);
  if (present && node->kind != Kind::kFile) co_return errnoError(EISDIR, "open " + path);
  if (!present) {
    node->links = 1;
    place->directory->apply({place->name, node, {}});
  }
  if (present && flags.truncate) node->resize(0);
  if (verdict == Disk::Verdict::kDoAndFail) co_return error.error();
  std::unique_ptr<File> file =
      std::make_unique<OpenedFile>(disk_, std::move(node), std::move(path));
  co_return std::move(file);
}

Result<std::unique_ptr<File>> CrashFileSystem::openForReading(const std::string& path) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  if (disk_->admit(FileCall::kOpen, false, path, error) != Disk::Verdict::kDo) return error.error();
  const Result<Node> node = disk_->find(path);
  if (!node.ok()) return node.error();
  if ((*node)->kind != Kind::kFile) return errnoError(EISDIR, "open " + path);
  return std::unique_ptr<File>(std::make_unique<OpenedFile>(disk_, *node, path));
}

Task<Status> CrashFileSystem::rename(std::string from, std::string to) {
  co_return changeNames(*disk_, from, [&]() -> Status {
    const Result<Disk::Place> source = disk_->place(from);
    const Result<Disk::Place> target = disk_->place(to);
    if (!source.ok()) return source.error();
    if (!target.ok()) return target.error();
    const auto found = source->directory->entries.find(source->name);
    if (found == source->directory->entries.end()) return errnoError(ENOENT, "rename " + from);
    const Node node = found->second;
    const auto old = target->directory->entries.find(target->name);
    if (old != target->directory->entries.end()) {
      if (old->second == node) return Status();
      if (!old->second->entries.empty()) return errnoError(ENOTEMPTY, "rename to " + to);
      --old->second->links;
    }
    if (source->directory == target->directory) {
      source->directory->apply({target->name, node, source->name});
    } else {
      target->directory->apply({target->name, node, {}});
      source->directory->apply({source->name, nullptr, {}});
    }
    return Status();
  });
}

Task<Status> CrashFileSystem::link(std::string from, std::string to) {
  co_return changeNames(*disk_, to, [&]() -> Status {
    const Result<Node> node = disk_->find(from);
    const Result<Disk::Place> target = disk_->place(to);
    if (!node.ok()) return node.error();
    if (!target.ok()) return target.error();
    if (target->directory->entries.contains(target->name)) return errnoError(EEXIST, "link " + to);
    ++(*node)->links;
    target->directory->apply({target->name, *node, {}});
    return Status();
  });
}

Task<Status> CrashFileSystem::symlink(std::string target, std::string path) {
  co_return changeNames(*disk_, path, [&]() -> Status {
    const Result<Disk::Place> place = disk_->place(path);
    if (!place.ok()) return place.error();
    if (place->directory->entries.contains(place->name))
      return errnoError(EEXIST, "symlink " + path);
    const Node node = disk_->make(Kind::kSymlink, 0777);
    node->links = 1;
    const auto bytes = std::as_bytes(std::span(target));
    node->data.assign(bytes.begin(), bytes.end());
    node->synced = node->data;
    place->directory->apply({place->name, node, {}});
    return Status();
  });
}

Task<Status> CrashFileSystem::unlink(std::string path) {
  co_return changeNames(*disk_, path, [&]() -> Status {
    const Result<Disk::Place> place = disk_->place(path);
    if (!place.ok()) return place.error();
    const auto found = place->directory->entries.find(place->name);
    if (found == place->directory->entries.end()) return errnoError(ENOENT, "unlink " + path);
    if (found->second->kind == Kind::kDirectory) return errnoError(EISDIR, "unlink " + path);
    --found->second->links;
    place->directory->apply({place->name, nullptr, {}});
    return Status();
  });
}

Task<Status> CrashFileSystem::makeDirectory(std::string path, std::uint32_t mode) {
  co_return changeNames(*disk_, path, [&]() -> Status {
    const Result<Disk::Place> place = disk_->place(path);
    if (!place.ok()) return place.error();
    if (place->directory->entries.contains(place->name)) return errnoError(EEXIST, "mkdir " + path);
    place->directory->apply({place->name, disk_->make(Kind::kDirectory, mode), {}});
    return Status();
  });
}

Task<Status> CrashFileSystem::removeDirectory(std::string path) {
  co_return changeNames(*disk_, path, [&]() -> Status {
    const Result<Disk::Place> place = disk_->place(path);
    if (!place.ok()) return place.error();
    const auto found = place->directory->entries.find(place->name);
    if (found == place->directory->entries.end()) return errnoError(ENOENT, "rmdir " + path);
    if (found->second->kind != Kind::kDirectory) return errnoError(ENOTDIR, "rmdir " + path);
    if (!found->second->entries.empty()) return errnoError(ENOTEMPTY, "rmdir " + path);
    place->directory->apply({place->name, nullptr, {}});
    return Status();
  });
}

Task<Status> CrashFileSystem::changeMode(std::string path, std::uint32_t mode) {
  co_return changeNames(*disk_, path, [&]() -> Status {
    const Result<Node> node = disk_->find(path);
    if (!node.ok()) return node.error();
    (*node)->mode = mode;
    return Status();
  });
}

Task<Status> CrashFileSystem::syncDirectory(std::string path) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  if (disk_->admit(FileCall::kSyncDirectory, true, path, error) != Disk::Verdict::kDo)
    co_return error;
  const Result<Node> node = disk_->find(path);
  if (!node.ok()) co_return node.error();
  (*node)->syncedEntries = (*node)->entries;
  (*node)->pending.clear();
  co_return Status();
}

Task<Result<std::vector<DirectoryEntry>>> CrashFileSystem::list(std::string path, ListDetail) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  if (disk_->admit(FileCall::kRead, false, path, error) != Disk::Verdict::kDo)
    co_return error.error();
  const Result<Node> node = disk_->find(path);
  if (!node.ok()) co_return node.error();
  if ((*node)->kind != Kind::kDirectory) co_return errnoError(ENOTDIR, "list " + path);
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, entry] : (*node)->entries) entries.push_back({name, entry->info()});
  co_return std::move(entries);
}

Task<Result<FileInfo>> CrashFileSystem::info(std::string path) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  if (disk_->admit(FileCall::kRead, false, path, error) != Disk::Verdict::kDo)
    co_return error.error();
  const Result<Node> node = disk_->find(path);
  if (!node.ok()) co_return node.error();
  co_return (*node)->info();
}

Task<Result<SpaceInfo>> CrashFileSystem::space(std::string path) {
  const std::lock_guard guard(disk_->mutex);
  Status error;
  if (disk_->admit(FileCall::kRead, false, path, error) != Disk::Verdict::kDo)
    co_return error.error();
  co_return disk_->space;
}

}  // namespace hearth
