#include "ended_requests.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace hearth::python {
namespace {

// The eventfd has room for 2^64 - 2 signals, so neither call can fail.
void signal(int event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event, &one, sizeof one);
}

void unsignal(int event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event, &count, sizeof count);
}

}  // namespace

EndedRequests::EndedRequests()
    : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), process_(getpid()) {}

void EndedRequests::push(RequestObject* request) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(request);
  if (ended_.size() == 1) signal(event_.get());
}

std::vector<RequestObject*> EndedRequests::take() {
  // A child shares the descriptor with its parent, whose signals it must leave alone.
  if (getpid() != process_) return {};
  const std::lock_guard lock(mutex_);
  if (!ended_.empty() && !isClosed_) unsignal(event_.get());
  expected_ -= ended_.size();
  return std::exchange(ended_, {});
}

bool EndedRequests::await(std::optional<std::chrono::milliseconds> timeout) const {
  if (isOver()) return true;
  pollfd polled{event_.get(), POLLIN, 0};
  const timespec limit =
      timeout ? timespec{timeout->count() / 1000, timeout->count() % 1000 * 1'000'000} : timespec{};
  return ppoll(&polled, 1, timeout ? &limit : nullptr, nullptr) >= 0 || errno != EINTR;
}

void EndedRequests::close() {
  if (getpid() != process_) return;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(isClosed_, true)) signal(event_.get());
}

bool EndedRequests::isOver() const {
  if (getpid() != process_) return true;
  const std::lock_guard lock(mutex_);
  return isClosed_;
}

}  // namespace hearth::python
