#include "origin/directory_transfer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "origin/touched_files.h"

namespace hearth {
namespace {

// Threads of one read: enough to keep an NVMe disk or an NFS server busy with pieces of a chunk.
constexpr std::size_t kThreadsPerRead = 4;
// Bytes of one read. They come into the thread's own memory and are copied from there, while they
// still are in the processor's cache: a read that hangs and returns late writes to nobody else's
// memory.
constexpr std::size_t kBounceBytes = std::size_t{256} << 10;

// Of a validator: "stat:" and the fields of struct stat of the listed file in this order. The last
// five are not there in manifests of earlier releases.
enum ListedField : std::size_t {
  kListedModified,
  kListedChanged,
  kListedInode,
  kListedLinks,
  kListedMode,
  kListedUser,
  kListedGroup,
  kListedFields
};
constexpr std::size_t kFieldsBefore = kListedInode;

std::optional<std::vector<std::int64_t>> listedFields(std::string_view validator) {
  constexpr std::string_view kKind = "stat:";
  if (!validator.starts_with(kKind)) return std::nullopt;
  std::vector<std::int64_t> fields;
  const char* at = validator.data() + kKind.size();
  const char* const end = validator.data() + validator.size();
  for (;;) {
    const auto [rest, error] = std::from_chars(at, end, fields.emplace_back());
    if (error != std::errc()) return std::nullopt;
    if (rest == end) break;
    if (*rest != ':') return std::nullopt;
    at = rest + 1;
  }
  const bool known = fields.size() == kFieldsBefore || fields.size() == kListedFields;
  return known ? std::optional(std::move(fields)) : std::nullopt;
}

// True: size apart, the listed file, but with another time of change.
bool isTouched(const std::vector<std::int64_t>& listed, const OriginFileInfo& now) {
  return listed.size() == kListedFields && now.modifiedNs == listed[kListedModified] &&
         now.inode == static_cast<std::uint64_t>(listed[kListedInode]) &&
         now.changedNs != listed[kListedChanged];
}

// Why the file is not the listed one; nothing: it is. Another time of change alone comes from
// links, the mode or the owner, if these are others than listed. If they are not, the bytes decide
// (TouchedFiles).
std::optional<std::string> difference(const std::vector<std::int64_t>& listed,
                                      const OriginFileInfo& now) {
  if (now.modifiedNs != listed[kListedModified]) return "its time of modification is another";
  if (now.changedNs == listed[kListedChanged]) return std::nullopt;
  if (listed.size() == kFieldsBefore) return "its time of change is another";
  if (now.inode != static_cast<std::uint64_t>(listed[kListedInode]))
    return "another file is in its place";
  const bool isExplained = now.links != listed[kListedLinks] || now.mode != listed[kListedMode] ||
                           now.user != listed[kListedUser] || now.group != listed[kListedGroup];
  if (isExplained) return std::nullopt;
  return "its time of change is another, and its links, mode and owner are not";
}

}  // namespace

DirectoryTransfer::DirectoryTransfer(Reactor& reactor, Event& changed, Source source,
                                     std::vector<std::span<std::byte>> into)
    : reactor_(reactor),
      changed_(&changed),
      source_(std::move(source)),
      name_(source_.root == "/" ? "/" + source_.path : source_.root + "/" + source_.path),
      into_(std::move(into)),
      copying_(std::make_unique<std::mutex[]>(into_.size())),
      ended_(into_.size(), false) {
  std::uint64_t at = source_.offset;
  for (const std::span<std::byte> piece : into_) {
    starts_.push_back(at);
    at += piece.size();
  }
}

Status DirectoryTransfer::start(DirectoryCalls& calls) {
  asked_ = Clock::now();
  files_ = calls.files();
  auto begun = calls.run(treeOf(source_.root, source_.path),
                         [self = shared_from_this()](Progress& tree) { self->begin(tree); });
  if (!begun.ok()) return begun.error();
  tree_ = std::move(*begun);
  return {};
}

void DirectoryTransfer::share(DirectoryCalls& calls) {
  if (shared_) return;
  {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;
  }
  shared_ = true;
  for (std::size_t i = 1; i < std::min(kThreadsPerRead, into_.size()); ++i) {
    // Threads that work already go on without it.
    [[maybe_unused]] const auto more =
        calls.run(treeOf(source_.root, source_.path),
                  [self = shared_from_this()](Progress& tree) { self->work(tree); });
  }
}

bool DirectoryTransfer::ended(std::size_t piece) const {
  const std::lock_guard lock(mutex_);
  return ended_[piece];
}

Status DirectoryTransfer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Clock::time_point DirectoryTransfer::progressAt() const {
  if (progress_.load() != 0) return DirectoryCalls::timeOf(progress_);
  return std::max(asked_, DirectoryCalls::timeOf(*tree_));
}

DirectoryTransfer::Counts DirectoryTransfer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void DirectoryTransfer::leave() {
  changed_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    left_ = true;
  }
  for (std::size_t piece = 0; piece < into_.size(); ++piece) {
    const std::lock_guard copied(copying_[piece]);
  }
}

void DirectoryTransfer::notify() {
  // With the lock held: after leave() the reactor may be gone.
  const std::lock_guard lock(mutex_);
  if (left_) return;
  reactor_.post([self = shared_from_this()] {
    if (self->changed_ != nullptr) self->changed_->set();
  });
}

Status DirectoryTransfer::check(const OriginFileInfo& info) const {
  const auto changed = [this](const std::string& what) {
    return Error{ErrorCode::kOriginChanged,
                 name_ + ": " + what +
                     "; the file has changed since it was listed: add the dataset again for a new "
                     "revision"};
  };
  const OriginExpectation& expected = source_.expectation;
  if (expected.objectSize != 0 && info.size != expected.objectSize) {
    return changed("it has " + std::to_string(info.size) + " bytes instead of " +
                   std::to_string(expected.objectSize));
  }
  if (expected.validator.empty()) return {};
  const auto listed = listedFields(expected.validator);
  if (!listed) {
    return Error{ErrorCode::kInvalidArgument,
                 name_ + ": the manifest's validator of it is none that this agent knows (" +
                     expected.validator + "); update the agent, or add the dataset again"};
  }
  const std::optional<std::string> other = difference(*listed, info);
  if (!other) return {};
  if (expected.touched != nullptr && isTouched(*listed, info)) {
    if (expected.touched->isSame(expected.file, info.changedNs) == true) return {};
    expected.touched->note(expected.file, info.changedNs);
  }
  return changed(*other);
}

Status DirectoryTransfer::open() {
  // A writer of the directory may have put a link there since it was listed.
  Result<std::unique_ptr<OriginFile>> file = files_->open(source_.root, source_.path);
  if (!file.ok()) return file.error();
  const Result<OriginFileInfo> info = (*file)->info();
  if (!info.ok()) return info.error();
  if (Status same = check(*info); !same.ok()) return same;
  std::uint64_t total = 0;
  for (const std::span<std::byte> piece : into_) total += piece.size();
  (*file)->willRead(source_.offset, total);
  const std::lock_guard lock(mutex_);
  file_ = std::move(*file);
  opened_ = *info;
  return {};
}

Status DirectoryTransfer::unchanged() const {
  const Result<OriginFileInfo> info = file_->info();
  if (!info.ok()) return info.error();
  if (Status same = check(*info); !same.ok()) return same;
  if (info->size != opened_.size || info->modifiedNs != opened_.modifiedNs) {
    return Error{ErrorCode::kOriginChanged, name_ + ": the file was written while it was read"};
  }
  return {};
}

void DirectoryTransfer::begin(Progress& tree) {
  if (left_) return;
  DirectoryCalls::note(progress_);
  const Status opened = open();
  if (!opened.ok()) {
    const std::lock_guard lock(mutex_);
    failure_ = opened;
  }
  notify();
  if (opened.ok()) work(tree);
}

void DirectoryTransfer::work(Progress& tree) {
  {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;
    ++workers_;
  }
  std::vector<std::byte> bounce;
  for (;;) {
    std::size_t piece = 0;
    {
      const std::lock_guard lock(mutex_);
      if (left_ || !failure_.ok() || next_ == into_.size()) break;
      piece = next_++;
      counts_.requests += into_[piece].empty() ? 0 : 1;
    }
    if (bounce.empty()) bounce.resize(std::min(kBounceBytes, into_[piece].size()));
    if (bounce.size() < into_[piece].size()) bounce.resize(kBounceBytes);
    const Status read = readPiece(piece, bounce, tree);
    {
      const std::lock_guard lock(mutex_);
      if (read.ok()) {
        ended_[piece] = true;
      } else if (failure_.ok()) {
        failure_ = read;
      }
    }
    notify();
  }
  std::unique_ptr<OriginFile> done;  // closed on this thread, without the lock
  const std::lock_guard lock(mutex_);
  if (--workers_ == 0) done = std::move(file_);
}

Status DirectoryTransfer::readPiece(std::size_t piece, std::span<std::byte> bounce,
                                    Progress& tree) {
  const std::span<std::byte> into = into_[piece];
  for (std::size_t at = 0; at < into.size();) {
    const std::size_t length = std::min(bounce.size(), into.size() - at);
    const Result<std::size_t> count = file_->readAt(bounce.first(length), starts_[piece] + at);
    if (!count.ok()) return count.error();
    {
      const std::lock_guard copying(copying_[piece]);
      if (left_) return Error{ErrorCode::kCancelled, name_ + ": no reader waits for it any more"};
      std::memcpy(into.data() + at, bounce.data(), *count);
    }
    at += *count;
    DirectoryCalls::note(progress_);
    DirectoryCalls::note(tree);
    {
      const std::lock_guard lock(mutex_);
      counts_.bytes += *count;
    }
    if (*count != length) {
      return Error{ErrorCode::kOriginChanged, name_ + ": the file ends at byte " +
                                                  std::to_string(starts_[piece] + at) +
                                                  ", before the range that was listed"};
    }
  }
  return unchanged();
}

}  // namespace hearth
