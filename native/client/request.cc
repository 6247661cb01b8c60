#include "client/request.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace hearth::gd2fs {

int CompletionQueue::admit() {
  const std::lock_guard lock(mutex_);
  if (closing_) return -EBADF;
  if (inFlight_ + done_.size() >= kMost) return -EAGAIN;
  ++inFlight_;
  return 0;
}

void CompletionQueue::push(std::list<xfer_gd2fs_completion> completion,
                           std::vector<MemoryUses::Use> uses) noexcept {
  bool closing = false;
  {
    const std::lock_guard lock(mutex_);
    --inFlight_;
    done_.splice(done_.end(), completion);
    uses.clear();
    closing = closing_;
    for (LentReactor* const lent : running_)
      if (!lent->reactor().onThisThread()) lent->reactor().post([] {});
  }
  // Behind the lock: who is woken with it held goes to sleep again for it. All when closing: who
  // finds nothing has to end.
  if (closing) {
    changed_.notify_all();
  } else {
    changed_.notify_one();
  }
}

bool CompletionQueue::runWhile(std::unique_lock<std::mutex>& lock, LentReactor& lent,
                               Clock::time_point deadline) {
  running_.push_back(&lent);
  lock.unlock();
  const bool ran = lent.borrow(deadline, [this] {
    const std::lock_guard held(mutex_);
    return hasEnded();
  });
  lock.lock();
  running_.erase(std::ranges::find(running_, &lent));
  return ran;
}

int CompletionQueue::take(std::span<xfer_gd2fs_completion> into, int timeoutMs, LentReactor* lent) {
  const Clock::time_point deadline = timeoutMs < 0
                                         ? Clock::time_point::max()
                                         : Clock::now() + std::chrono::milliseconds(timeoutMs);
  // Before a reactor is asked for: who has the reactor meanwhile sees that we wait.
  const Waiting waiting(*this);
  std::unique_lock lock(mutex_);
  if (lent != nullptr && !hasEnded() && inFlight_ == 1) lent->ask();
  while (!hasEnded()) {
    if (lent != nullptr && inFlight_ != 0 && runWhile(lock, *lent, deadline)) {
      if (!hasEnded() && Clock::now() >= deadline) return 0;
    } else if (timeoutMs < 0) {
      changed_.wait(lock);
    } else if (!changed_.wait_for(lock, deadline - Clock::now(), [this] { return hasEnded(); })) {
      return 0;
    }
  }
  if (done_.empty()) return -EBADF;
  const std::size_t count = std::min(into.size(), done_.size());
  const auto rest = std::next(done_.begin(), static_cast<std::ptrdiff_t>(count));
  std::copy(done_.begin(), rest, into.begin());
  done_.erase(done_.begin(), rest);
  // One notification may have woken us for completions of two.
  if (!done_.empty()) changed_.notify_one();
  return static_cast<int>(count);
}

void CompletionQueue::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

bool CompletionQueue::isOver() {
  const std::lock_guard lock(mutex_);
  return closing_ && inFlight_ == 0 && done_.empty();
}

void Request::use(std::vector<std::shared_ptr<IoMemory>> memory) {
  memory_ = std::move(memory);
  for (const std::shared_ptr<IoMemory>& each : memory_)
    uses_.push_back(MemoryUses::begin(each->uses));
}

const IoMemory& Request::memoryOf(const MemoryRegion& region) const {
  return **std::ranges::find_if(memory_, [&](const std::shared_ptr<IoMemory>& memory) {
    return memory->region.get() == &region;
  });
}

Request::~Request() {
  // First: the program may deregister it as soon as it has the completion.
  memory_.clear();
  if (!isAdmitted_) return;
  xfer_gd2fs_completion& completion = completion_.front();
  completion.status = status_.load();
  completion.value = completion.status == 0 ? bytes_.load() : 0;
  completion.reserved[0] = isQuiescent_ ? 0 : XFER_GD2FS_NOT_QUIESCENT;
  sink_->push(std::move(completion_), std::move(uses_));
}

}  // namespace hearth::gd2fs
