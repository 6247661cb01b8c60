#include "client/local_files.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "wire/client_message.h"

namespace hearth::gd2fs {
namespace {

// A refused file is asked for again after so long: a file may have become whole.
constexpr Clock::duration kRefusedFor = std::chrono::seconds(1);
// An agent that does not listen, or has gone.
constexpr Clock::duration kAbsentFor = std::chrono::seconds(2);
constexpr Clock::duration kIdleAfter = std::chrono::seconds(5);
constexpr Clock::duration kAnswerTime = std::chrono::seconds(2);
constexpr std::size_t kMostPieces = 64;  // of one system call
constexpr std::uint64_t kMostAtOnce = 1u << 30;

std::size_t gatherPieces(MemoryCursor from, std::uint64_t size, std::span<iovec> pieces) {
  std::size_t count = 0;
  for (size = std::min(size, kMostAtOnce); size != 0 && count < pieces.size(); ++count) {
    const std::span<std::byte> piece = from.next(static_cast<std::size_t>(size));
    pieces[count] = {piece.data(), piece.size()};
    size -= piece.size();
  }
  return count;
}

// Returns the bytes that the page cache has, -EAGAIN where the read would wait for the disk, or the
// negative errno of a file system that cannot tell.
std::int32_t readNow(int fd, std::span<const iovec> pieces, std::uint64_t offset) {
  const ssize_t got = preadv2(fd, pieces.data(), static_cast<int>(pieces.size()),
                              static_cast<off_t>(offset), RWF_NOWAIT);
  return static_cast<std::int32_t>(got < 0 ? -errno : got);
}

// A regular file of that size, as the agent says.
bool isWhole(int fd, std::uint64_t size) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
         static_cast<std::uint64_t>(about.st_size) == size;
}

}  // namespace

Task<Status> LocalFile::read(Reactor& reactor, std::uint64_t offset, MemoryVector into) const {
  if (offset > size_ || into.size() > size_ - offset)
    co_return Error{ErrorCode::kIoError, "the range lies behind the end of the file"};
  MemoryCursor cursor(into);
  for (std::uint64_t left = into.size(); left != 0;) {
    std::array<iovec, kMostPieces> pieces;
    const std::size_t count = gatherPieces(cursor, left, pieces);
    // The bytes that are in the page cache come at once: a helper thread would have to be woken.
    std::int32_t got = readNow(fd_.get(), std::span(pieces).first(count), offset);
    if (got < 0 && got != -EFAULT)
      got = co_await reactor.perform({.kind = OperationKind::kReadV,
                                      .fd = fd_.get(),
                                      .address = pieces.data(),
                                      .length = static_cast<std::uint32_t>(count),
                                      .offset = offset});
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got == -EFAULT)
      co_return Error{ErrorCode::kInvalidArgument, "memory is not mapped or cannot be written"};
    if (got <= 0)
      co_return Error{ErrorCode::kIoError,
                      got < 0 ? errnoError(-got, "read a file of this node").message
                              : "a file of this node has become shorter"};
    cursor.skip(static_cast<std::uint64_t>(got));
    offset += static_cast<std::uint64_t>(got);
    left -= static_cast<std::uint64_t>(got);
  }
  co_return Status();
}

LocalFiles::LocalFiles(const ClientOptions& options, Reactor& reactor)
    : socket_(options.agentSocket),
      cluster_(options.cluster),
      token_(options.token),
      reactor_(reactor),
      absentUntil_(socket_.empty() ? Clock::time_point::max() : Clock::time_point::min()),
      gate_(reactor),
      turn_(reactor, 1),
      idle_(reactor) {}

std::shared_ptr<LocalFile> LocalFiles::find(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end() || found->second.file == nullptr) return nullptr;
  found->second.file->use();
  return found->second.file;
}

bool LocalFiles::isRefused(const ContentKey& key) {
  const Clock::time_point now = Clock::now();
  if (absentUntil_.load() > now) return true;
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  return found != known_.end() && found->second.file == nullptr && found->second.until > now;
}

void LocalFiles::refuse(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign(key, Known{nullptr, 0, Clock::now() + kRefusedFor});
}

void LocalFiles::distrust(const ContentKey& key) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    if (found == known_.end() || found->second.file == nullptr) return;
    givenUp_.push_back(found->second.number);
  }
  refuse(key);
}

void LocalFiles::forgetAll() {
  const std::lock_guard lock(mutex_);
  known_.clear();
  givenUp_.clear();
}

Task<std::shared_ptr<LocalFile>> LocalFiles::open(std::string path, ContentKey key,
                                                  std::uint64_t size, Reactor& back) {
  if (size < kFromBytes || isRefused(key)) co_return nullptr;
  co_await reactor_.enter();
  co_await turn_.acquire(1);
  // Another request may have asked meanwhile.
  std::shared_ptr<LocalFile> file = find(key);
  if (file == nullptr && !closing_ && !isRefused(key)) {
    file = co_await ask(std::move(path), key, size);
    if (file == nullptr) refuse(key);
  }
  turn_.release(1);
  co_await back.enter();
  co_return file;
}

Task<std::shared_ptr<LocalLink>> LocalFiles::link() {
  if (link_ != nullptr) co_return link_;
  const Result<CapabilityToken> token = token_();
  if (!token.ok()) co_return nullptr;
  // Its files may be evicted from now on: what is open would take room that nobody counts.
  std::function<void()> ended = [this] {
    link_.reset();
    forgetAll();
    absentUntil_ = std::max(absentUntil_.load(), Clock::now() + kAbsentFor);
  };
  LocalLinkOptions options{socket_, "local", cluster_, *token};
  Result<std::shared_ptr<LocalLink>> dialled =
      co_await LocalLink::dial(reactor_, gate_, std::move(options), std::move(ended));
  if (dialled.ok()) {
    link_ = *dialled;
    scheduleClosing();
  } else {
    absentUntil_ = Clock::now() + kAbsentFor;
  }
  co_return link_;
}

Task<std::shared_ptr<LocalFile>> LocalFiles::ask(std::string path, ContentKey key,
                                                 std::uint64_t size) {
  const std::shared_ptr<LocalLink> link = co_await this->link();
  if (link == nullptr) co_return nullptr;
  closeIdle();
  ControlMessage question{static_cast<std::uint16_t>(ClientMessage::kOpen), encodePath(path)};
  Result<LocalLink::Answer> answer =
      co_await link->ask(std::move(question), Clock::now() + kAnswerTime);
  if (!answer.ok()) co_return nullptr;
  const Result<ResolvedPath> resolved = decodeResolvedPath(answer->message.body);
  const bool sound = resolved.ok() && resolved->key == key && resolved->size == size &&
                     isWhole(answer->descriptor.get(), size) && link == link_;
  if (!sound) {
    link->giveBack(answer->number);
    co_return nullptr;
  }
  const auto file = std::make_shared<LocalFile>(std::move(answer->descriptor), size);
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign(key, Known{file, answer->number, {}});
  co_return file;
}

Task<std::optional<Status>> LocalFiles::tell(ControlMessage message, Clock::time_point deadline,
                                             Reactor& back) {
  if (absentUntil_.load() > Clock::now()) co_return std::nullopt;
  co_await reactor_.enter();
  co_await turn_.acquire(1);
  std::optional<Status> told;
  if (const std::shared_ptr<LocalLink> link = closing_ ? nullptr : co_await this->link()) {
    const Result<LocalLink::Answer> answer = co_await link->ask(std::move(message), deadline);
    // An agent that has gone has not said anything.
    if (answer.ok()) {
      told = Status();
    } else if (answer.code() != ErrorCode::kUnavailable) {
      told = answer.error();
    }
  }
  turn_.release(1);
  co_await back.enter();
  co_return told;
}

void LocalFiles::closeIdle() {
  const Clock::time_point now = Clock::now();
  std::vector<std::uint64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    numbers = std::exchange(givenUp_, {});
    // Readers take their references with the mutex held, so none can begin here.
    std::erase_if(known_, [&](const auto& entry) {
      const Known& known = entry.second;
      if (known.file == nullptr) return known.until <= now;
      const bool idle = known.file->usedAt() + kIdleAfter <= now || known_.size() > kMostOpen;
      if (!idle || known.file.use_count() > 1) return false;
      numbers.push_back(known.number);
      return true;
    });
  }
  if (link_ == nullptr) return;
  for (const std::uint64_t number : numbers) link_->giveBack(number);
}

void LocalFiles::scheduleClosing() {
  idle_.start(Clock::now() + kIdleAfter, [this] {
    closeIdle();
    if (link_ != nullptr) scheduleClosing();
  });
}

Task<void> LocalFiles::close() {
  closing_ = true;
  idle_.cancel();
  if (link_ != nullptr) link_->end();
  co_await gate_.close();
  forgetAll();
}

}  // namespace hearth::gd2fs
