#include "client/kv_batch.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "client/completion_status.h"

namespace hearth::gd2fs {
namespace {

// Requests end by their deadline themselves, with their memory at rest. The queue ends a batch
// whose requests do not.
constexpr Clock::duration kGrace = std::chrono::milliseconds(20);

}  // namespace

int KvQueue::open() {
  done_ = OwnedFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_ = OwnedFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  all_ = OwnedFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!done_ || !timer_ || !all_) return -errno;
  for (const OwnedFd* const each : {&done_, &timer_}) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    if (::epoll_ctl(all_.get(), EPOLL_CTL_ADD, each->get(), &event) != 0) return -errno;
  }
  return 0;
}

int KvQueue::admit(const std::shared_ptr<KvBatch>& batch) {
  const std::lock_guard lock(mutex_);
  if (batches_ >= kMaxBatches || items_ + batch->size() > kMaxItems) return -EAGAIN;
  busy_.emplace(batch.get(), batch);
  ++batches_;
  items_ += batch->size();
  if (batch->deadline + kGrace < armed_) arm(batch->deadline + kGrace);
  return 0;
}

void KvQueue::push(std::list<hearth_kv_completion> completion, std::size_t items) noexcept {
  const std::lock_guard lock(mutex_);
  items_ -= items;
  if (completions_.empty()) (void)::eventfd_write(done_.get(), 1);
  completions_.splice(completions_.end(), completion);
}

void KvQueue::atRest(const KvBatch* batch,
                     std::vector<std::shared_ptr<MemoryUses>> restless) noexcept {
  std::shared_ptr<KvBatch> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  // Without memory for it a program that waits for the end of these uses has the context's drain.
  try {
    restless_.insert(restless_.end(), restless.begin(), restless.end());
  } catch (const std::bad_alloc&) {
    restless.clear();
  }
  const auto found = busy_.find(batch);
  if (found == busy_.end()) return;
  gone = std::move(found->second);
  busy_.erase(found);
  changed_.notify_all();
}

std::list<hearth_kv_completion> KvQueue::takeDone(int max) {
  const std::lock_guard lock(mutex_);
  std::list<hearth_kv_completion> taken;
  const std::size_t count = std::min(completions_.size(), static_cast<std::size_t>(max));
  const auto end = std::next(completions_.begin(), static_cast<std::ptrdiff_t>(count));
  taken.splice(taken.end(), completions_, completions_.begin(), end);
  batches_ -= count;
  eventfd_t signals = 0;
  if (count != 0 && completions_.empty()) (void)::eventfd_read(done_.get(), &signals);
  return taken;
}

void KvQueue::arm(Clock::time_point deadline) {
  armed_ = deadline;
  itimerspec when{};
  if (deadline != Clock::time_point::max()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::max(deadline - Clock::now(), Clock::duration(1)));
    when.it_value.tv_sec = left.count() / 1'000'000'000;
    when.it_value.tv_nsec = left.count() % 1'000'000'000;
  }
  (void)::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

template <class Matches>
std::vector<std::shared_ptr<KvBatch>> KvQueue::busyThat(Matches matches) {
  std::vector<std::shared_ptr<KvBatch>> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, batch] : busy_) {
    if (matches(*batch)) found.push_back(batch);
  }
  return found;
}

void KvQueue::endLate() {
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (now < armed_) return;
  }
  const auto isLate = [now](const KvBatch& batch) { return batch.deadline + kGrace <= now; };
  for (const auto& batch : busyThat(isLate)) (void)batch->interrupt(ETIMEDOUT);
  const std::lock_guard lock(mutex_);
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [key, batch] : busy_) {
    if (!isLate(*batch)) next = std::min(next, batch->deadline + kGrace);
  }
  arm(next);
}

void KvQueue::await(Clock::time_point deadline) const {
  int left = -1;
  if (deadline != Clock::time_point::max()) {
    const auto until = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    left = static_cast<int>(std::clamp<std::int64_t>(until.count(), 0, 86'400'000));
  }
  pollfd polled{.fd = all_.get(), .events = POLLIN, .revents = 0};
  (void)::poll(&polled, 1, left);
}

int KvQueue::cancel(const void* id) {
  int count = 0;
  for (const auto& batch : busyThat([id](const KvBatch& each) { return each.id() == id; }))
    count += batch->interrupt(ECANCELED) ? 1 : 0;
  return count;
}

void KvQueue::cancelAll() {
  for (const auto& batch : busyThat([](const KvBatch&) { return true; }))
    (void)batch->interrupt(ECANCELED);
}

bool KvQueue::drain(Clock::time_point deadline) {
  std::vector<std::shared_ptr<MemoryUses>> restless;
  {
    std::unique_lock lock(mutex_);
    const auto isIdle = [this] { return busy_.empty(); };
    if (deadline == Clock::time_point::max()) {
      changed_.wait(lock, isIdle);
    } else if (!changed_.wait_until(lock, deadline, isIdle)) {
      return false;
    }
    restless = restless_;
  }
  for (const auto& uses : restless) {
    if (!uses->awaitEnd(deadline)) return false;
    const std::lock_guard lock(mutex_);
    std::erase(restless_, uses);
  }
  return true;
}

KvBatch::KvBatch(std::shared_ptr<KvQueue> queue, const hearth_kv_batch& given,
                 Clock::time_point until)
    : deadline(until),
      queue_(std::move(queue)),
      id_(given.id),
      items_(reinterpret_cast<std::byte*>(given.items)),
      stride_(given.items->size),
      outcomes_(given.count) {}

int KvBatch::begin(std::span<const std::shared_ptr<Request>> requests) {
  requests_.assign(requests.begin(), requests.end());
  underWay_ = requests.size();
  if (const int refused = queue_->admit(shared_from_this()); refused != 0) return refused;
  for (const std::shared_ptr<Request>& request : requests) (void)request->admit();
  return 0;
}

void KvBatch::push(std::list<xfer_gd2fs_completion> completion,
                   std::vector<MemoryUses::Use> uses) noexcept {
  const xfer_gd2fs_completion& ended = completion.front();
  uses.clear();
  std::vector<std::shared_ptr<MemoryUses>> restless;
  {
    const std::lock_guard lock(mutex_);
    const auto item = reinterpret_cast<std::uintptr_t>(ended.id);
    const int status = static_cast<int>(XFER_GD2FS_STATUS_CODE(ended.status));
    if (item < outcomes_.size()) {
      if (outcomes_[item].status == kPending) outcomes_[item].status = status;
    } else {
      for (Outcome& each : outcomes_)
        if (each.status == kPending) each.status = status;
    }
    if (!XFER_GD2FS_IS_QUIESCENT(ended)) restless_ = true;
    if (--underWay_ != 0) return;
    if (restless_) restless.swap(uses_);
    complete(0);
  }
  queue_->atRest(this, std::move(restless));
}

void KvBatch::setBytes(std::size_t item, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  outcomes_[item].bytes = bytes;
}

void KvBatch::setStatus(std::size_t item, int status) {
  const std::lock_guard lock(mutex_);
  if (outcomes_[item].status == kPending) outcomes_[item].status = status;
}

bool KvBatch::interrupt(int status) {
  // A request that goes here ends in push(), which takes the mutex.
  for (const std::weak_ptr<Request>& each : requests_) {
    if (const auto request = each.lock()) request->fail(requestStatus(status));
  }
  const std::lock_guard lock(mutex_);
  const bool open = !completion_.empty();
  complete(status);
  return open;
}

void KvBatch::complete(int statusOfPending) noexcept {
  if (completion_.empty()) return;
  hearth_kv_completion& done = completion_.front();
  done = {.size = sizeof done, .id = id_, .value = 0, .status = 0, .flags = 0};
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    Outcome& outcome = outcomes_[i];
    if (outcome.status == kPending) outcome.status = statusOfPending;
    auto& item = *reinterpret_cast<hearth_kv_item*>(items_ + i * stride_);
    item.value_bytes = outcome.status == 0 || outcome.status == EMSGSIZE ? outcome.bytes : 0;
    item.status = outcome.status;
    if (outcome.status == 0) ++done.value;
    if (outcome.status != 0 && outcome.status != ENOENT && done.status == 0)
      done.status = outcome.status;
  }
  if (underWay_ != 0 || restless_) done.flags = HEARTH_KV_NOT_AT_REST;
  queue_->push(std::move(completion_), outcomes_.size());
  completion_.clear();
}

int checkBatch(const hearth_kv_batch* batch) {
  if (batch == nullptr || batch->size < sizeof *batch || batch->flags != 0) return -EINVAL;
  if (batch->items == nullptr || batch->count == 0 || batch->count > HEARTH_KV_MAX_ITEMS)
    return -EINVAL;
  const std::size_t stride = batch->items->size;
  if (stride < sizeof(hearth_kv_item) || stride % alignof(hearth_kv_item) != 0) return -EINVAL;
  for (std::size_t i = 0; i < batch->count; ++i) {
    const hearth_kv_item& item = itemOf(*batch, i);
    const bool sound = item.size == stride && item.key != nullptr && item.key_bytes != 0 &&
                       item.key_bytes <= HEARTH_KV_MAX_KEY_BYTES;
    if (!sound) return -EINVAL;
  }
  return 0;
}

}  // namespace hearth::gd2fs
