#include "reactor/epoll_backend.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hearth {
namespace {

bool isFileCall(OperationKind kind) {
  switch (kind) {
    case OperationKind::kRead:
    case OperationKind::kWrite:
    case OperationKind::kReadV:
    case OperationKind::kWriteV:
    case OperationKind::kSyncData:
      return true;
    case OperationKind::kAccept:
    case OperationKind::kConnect:
    case OperationKind::kReceive:
    case OperationKind::kReceiveMessage:
    case OperationKind::kSend:
    case OperationKind::kSendMessage:
    case OperationKind::kPoll:
      return false;
  }
  return false;
}

bool waitsForWriting(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kConnect:
    case OperationKind::kSend:
    case OperationKind::kSendMessage:
      return true;
    case OperationKind::kPoll:
      return (operation.flags & POLLIN) == 0;
    default:
      return false;
  }
}

std::int32_t outcome(ssize_t result) {
  return result < 0 ? -errno : static_cast<std::int32_t>(result);
}

// Tries a socket call; -EAGAIN when the descriptor is not ready. `first` is false after readiness.
std::int32_t callSocket(const Operation& operation, bool first) {
  const int flags = static_cast<int>(operation.flags) | MSG_DONTWAIT;
  switch (operation.kind) {
    case OperationKind::kAccept:
      return outcome(accept4(operation.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    case OperationKind::kConnect: {
      if (first) {
        const int value = connect(operation.fd, static_cast<const sockaddr*>(operation.address),
                                  operation.length);
        return value == 0 ? 0 : (errno == EINPROGRESS ? -EAGAIN : -errno);
      }
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(operation.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      return -error;
    }
    case OperationKind::kReceive:
      return outcome(recv(operation.fd, operation.address, operation.length, flags & ~MSG_WAITALL));
    case OperationKind::kReceiveMessage:
      return outcome(
          recvmsg(operation.fd, static_cast<msghdr*>(operation.address), flags & ~MSG_WAITALL));
    case OperationKind::kSend:
      return outcome(send(operation.fd, operation.address, operation.length, flags));
    case OperationKind::kSendMessage:
      return outcome(sendmsg(operation.fd, static_cast<const msghdr*>(operation.address), flags));
    default: {
      pollfd poller{operation.fd, static_cast<short>(operation.flags), 0};
      const int count = ::poll(&poller, 1, 0);
      return count == 0 ? -EAGAIN : (count < 0 ? -errno : poller.revents);
    }
  }
}

}  // namespace

std::int32_t callFile(const Operation& operation) {
  const auto offset = static_cast<off_t>(operation.offset);
  const auto* const vector = static_cast<const iovec*>(operation.address);
  const int count = static_cast<int>(operation.length);
  switch (operation.kind) {
    case OperationKind::kRead:
      return outcome(pread(operation.fd, operation.address, operation.length, offset));
    case OperationKind::kWrite:
      return outcome(pwrite(operation.fd, operation.address, operation.length, offset));
    case OperationKind::kReadV:
      return outcome(preadv(operation.fd, vector, count, offset));
    case OperationKind::kWriteV:
      return outcome(pwritev(operation.fd, vector, count, offset));
    default:
      return outcome(fdatasync(operation.fd));
  }
}

Result<std::unique_ptr<EpollReactor>> EpollReactor::create() {
  std::unique_ptr<EpollReactor> reactor(new EpollReactor);
  reactor->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (reactor->epoll_ < 0) return errnoError(errno, "epoll_create1");
  reactor->wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (reactor->wakeup_ < 0) return errnoError(errno, "eventfd");
  epoll_event event{.events = EPOLLIN, .data = {.fd = reactor->wakeup_}};
  epoll_ctl(reactor->epoll_, EPOLL_CTL_ADD, reactor->wakeup_, &event);
  return reactor;
}

EpollReactor::~EpollReactor() {
  if (wakeup_ >= 0) close(wakeup_);
  if (epoll_ >= 0) close(epoll_);
}

void EpollReactor::runUntil(Clock::time_point deadline, const std::function<bool()>& isDone,
                            bool awaited) {
  isDone_ = &isDone;
  until_ = deadline;
  awaited_ = awaited;
  if (awaited_) expectSoon();
  run();
  isDone_ = nullptr;
  awaited_ = false;
  until_ = Clock::time_point::max();
}

void EpollReactor::wake() {
  if (onThisThread()) return;  // it does not sleep
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_, &one, sizeof one);
}

void EpollReactor::submit(Operation& operation) {
  if (isFileCall(operation.kind)) {
    // The value goes straight into the operation; the coroutine resumes on this thread.
    struct Call {
      static Task<void> run(EpollReactor& reactor, Operation& pending) {
        auto call = [&pending] { return callFile(pending); };
        const std::int32_t result = co_await reactor.offload(reactor.fileCalls_, call);
        pending.result = result;
        reactor.completed_.push_back(&pending);
      }
    };
    spawn(Call::run(*this, operation));
    return;
  }
  if (tryAtOnce(operation)) {
    completed_.push_back(&operation);  // never resume inside await_suspend
    return;
  }
  Watched& watched = watched_[operation.fd];
  (waitsForWriting(operation) ? watched.writers : watched.readers).push_back(&operation);
  watchSoon(operation.fd, watched);
}

bool EpollReactor::tryAtOnce(Operation& operation) {
  // For recv, `offset` counts what has come: with MSG_WAITALL it goes on until the buffer is full.
  operation.offset = 0;
  const bool receives = operation.kind == OperationKind::kReceive;
  const auto watched = receives ? watched_.find(operation.fd) : watched_.end();
  if (watched != watched_.end() && watched->second.drained) return false;
  const std::int32_t result = callSocket(operation, true);
  if (result == -EAGAIN) return false;
  const bool lacks =
      receives && result > 0 && static_cast<std::uint32_t>(result) < operation.length;
  if (watched != watched_.end()) watched->second.drained = lacks;
  const bool more = lacks && (operation.flags & MSG_WAITALL);
  operation.offset = more ? static_cast<std::uint64_t>(result) : 0;
  operation.result = result;
  return !more;
}

void EpollReactor::watchSoon(int fd, Watched& watched) {
  if (!std::exchange(watched.listed, true)) unwatched_.push_back(fd);
}

void EpollReactor::watch(int fd, Watched& watched) {
  epoll_event event{};
  event.data.fd = fd;
  event.events = EPOLLONESHOT | (watched.readers.empty() ? 0u : EPOLLIN | EPOLLRDHUP) |
                 (watched.writers.empty() ? 0u : EPOLLOUT);
  // A closed descriptor leaves epoll by itself and its number may come again: add where modify
  // fails.
  if (watched.registered && epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0) return;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST) {
    epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
  }
  watched.registered = true;
}

void EpollReactor::ready(int fd, std::uint32_t events) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  Watched& watched = found->second;
  watched.drained = false;
  const auto advance = [this, &watched](std::deque<Operation*>& queue) {
    while (!queue.empty()) {
      Operation& operation = *queue.front();
      const bool receives = operation.kind == OperationKind::kReceive;
      Operation rest = operation;
      if (receives) {
        rest.address = static_cast<std::byte*>(operation.address) + operation.offset;
        rest.length -= static_cast<std::uint32_t>(operation.offset);
      }
      std::int32_t result = callSocket(rest, false);
      if (result == -EAGAIN) return;
      const bool drained =
          receives && result > 0 && static_cast<std::uint32_t>(result) < rest.length;
      if (receives && result >= 0) {
        operation.offset += static_cast<std::uint64_t>(result);
        const bool wantsMore = (operation.flags & MSG_WAITALL) != 0 && result > 0;
        if (wantsMore && operation.offset < operation.length) continue;
        result = static_cast<std::int32_t>(operation.offset);
      } else if (receives && operation.offset != 0) {
        result = static_cast<std::int32_t>(operation.offset);  // the next call has the error
      }
      operation.result = result;
      queue.pop_front();
      completed_.push_back(&operation);
      watched.drained = drained;
    }
  };
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) advance(watched.readers);
  if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) advance(watched.writers);
  if (!watched.readers.empty() || !watched.writers.empty()) watchSoon(fd, watched);
}

void EpollReactor::cancel(Operation& operation) {
  if (isFileCall(operation.kind)) return;
  const auto found = watched_.find(operation.fd);
  if (found == watched_.end()) return;
  for (auto* const queue : {&found->second.readers, &found->second.writers}) {
    const auto position = std::find(queue->begin(), queue->end(), &operation);
    if (position == queue->end()) continue;
    queue->erase(position);
    operation.result = -ECANCELED;
    completed_.push_back(&operation);
    return;
  }
}

bool EpollReactor::arrived() {
  if (isDone()) return true;
  bool tried = false;
  for (const int fd : unwatched_) {
    if (watched_[fd].readers.empty() || !completed_.empty()) continue;
    tried = true;
    ready(fd, EPOLLIN);
  }
  // Epoll watches the others.
  const bool due = !tried || ++triesWithoutEpoll_ % kMostTriesWithoutEpoll == 0;
  if (completed_.empty() && due) collect(0);
  return !completed_.empty();
}

void EpollReactor::wait(Clock::time_point deadline) {
  if (isDone()) return stop();
  deadline = std::min(deadline, until_);
  if (completed_.empty() || ++looksLeftOut_ > kMostLooksLeftOut) look(deadline);
  // Operations completed by the resumed coroutines wait for the next turn.
  std::deque<Operation*> now;
  now.swap(completed_);
  if (awaited_ && !now.empty()) expectSoon();
  for (Operation* const operation : now) operation->awaiter.resume();
  if (until_ != Clock::time_point::max() && Clock::now() >= until_) stop();
}

void EpollReactor::look(Clock::time_point deadline) {
  looksLeftOut_ = 0;
  for (const int fd : unwatched_) {
    Watched& watched = watched_[fd];
    watched.listed = false;
    if (!watched.readers.empty() || !watched.writers.empty()) watch(fd, watched);
  }
  unwatched_.clear();
  int timeout = 0;
  if (completed_.empty()) {
    const auto left = deadline - std::min(deadline, Clock::now());
    timeout = static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(left + std::chrono::microseconds(999))
            .count());
  }
  collect(timeout);
}

void EpollReactor::collect(int timeout) {
  epoll_event events[64];
  const int count = epoll_wait(epoll_, events, 64, timeout);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == wakeup_) {
      std::uint64_t value;
      [[maybe_unused]] const ssize_t bytes = read(wakeup_, &value, sizeof value);
    } else {
      ready(events[i].data.fd, events[i].events);
    }
  }
}

}  // namespace hearth
