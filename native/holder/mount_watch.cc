#include "holder/mount_watch.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace hearth {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::uint64_t load(const std::uint64_t& word) {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

std::uint64_t nanoseconds(Clock::duration time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace

struct MountWatch::Words {
  std::uint64_t deadline;
  std::uint64_t served;
  std::uint64_t ended;
  std::uint64_t left;
  std::uint64_t reported;
  std::uint64_t zeros[3];
};

Result<MountWatch> MountWatch::map(const OwnedFd& memory) {
  static_assert(sizeof(Words) == kBytes);
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return errnoError(errno, "size of a mount's memory");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < kPageBytes || size % kPageBytes != 0)
    return Error{ErrorCode::kProtocolError, "the memory of a mount does not end with a page"};
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(),
                          static_cast<off_t>(size - kPageBytes));
  if (page == MAP_FAILED) return errnoError(errno, "map a mount's memory");
  return MountWatch(page);
}

MountWatch::MountWatch(void* page)
    : page_(page),
      words_(reinterpret_cast<Words*>(static_cast<std::byte*>(page) + kPageBytes - kBytes)) {}

MountWatch::MountWatch(MountWatch&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)), words_(other.words_) {}

MountWatch::~MountWatch() {
  if (page_ != nullptr) munmap(page_, kPageBytes);
}

void MountWatch::serve(Clock::time_point now, Clock::duration deadline) {
  store(words_->served, nanoseconds(now.time_since_epoch()));
  store(words_->deadline, nanoseconds(deadline));
}

std::uint64_t MountWatch::ended() const { return load(words_->ended); }
std::uint64_t MountWatch::takeEnded() {
  const std::uint64_t now = ended();
  const std::uint64_t before = std::atomic_ref(words_->reported).exchange(now);
  return now - std::min(before, now);
}

std::uint64_t MountWatch::left() const { return load(words_->left); }

Clock::time_point MountWatch::until() const {
  const std::uint64_t deadline = load(words_->deadline);
  if (deadline == 0) return Clock::time_point::max();
  // An agent's time lies in the past.
  const std::uint64_t served = load(words_->served);
  const std::uint64_t limit = nanoseconds(Clock::duration::max()) / 2;
  if (deadline > limit || served > limit) return Clock::time_point::max();
  return Clock::time_point(std::chrono::nanoseconds(served + deadline));
}

void MountWatch::countEnded() { std::atomic_ref(words_->ended).fetch_add(1); }
void MountWatch::countLeft() { std::atomic_ref(words_->left).fetch_add(1); }

}  // namespace hearth
