#include "reactor/uring_backend.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace hearth {
namespace {

constexpr unsigned kEntries = 1024;
// The kernel's threads for calls of files that block. By default it has four for each core, and a
// disk that hangs would take them all.
constexpr unsigned kFileThreads = 256;
// user_data of completions that resume no coroutine.
constexpr std::uint64_t kIgnored = 0;
constexpr std::uint64_t kWakeup = 1;
// A flag of polls that no kernel knows, so each kernel refuses it as kernels before 5.13 refuse
// persistent polls.
constexpr std::uint32_t kUnknownPollFlag = 1u << 31;

void prepare(io_uring_sqe* entry, const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kRead:
      return io_uring_prep_read(entry, operation.fd, operation.address, operation.length,
                                operation.offset);
    case OperationKind::kWrite:
      return io_uring_prep_write(entry, operation.fd, operation.address, operation.length,
                                 operation.offset);
    case OperationKind::kReadV:
      return io_uring_prep_readv(entry, operation.fd, static_cast<const iovec*>(operation.address),
                                 operation.length, operation.offset);
    case OperationKind::kWriteV:
      return io_uring_prep_writev(entry, operation.fd, static_cast<const iovec*>(operation.address),
                                  operation.length, operation.offset);
    case OperationKind::kSyncData:
      return io_uring_prep_fsync(entry, operation.fd, IORING_FSYNC_DATASYNC);
    case OperationKind::kAccept:
      return io_uring_prep_accept(entry, operation.fd, nullptr, nullptr,
                                  SOCK_NONBLOCK | SOCK_CLOEXEC);
    case OperationKind::kConnect:
      return io_uring_prep_connect(entry, operation.fd, static_cast<sockaddr*>(operation.address),
                                   operation.length);
    case OperationKind::kReceive:
      return io_uring_prep_recv(entry, operation.fd, operation.address, operation.length,
                                static_cast<int>(operation.flags));
    case OperationKind::kReceiveMessage:
      return io_uring_prep_recvmsg(entry, operation.fd, static_cast<msghdr*>(operation.address),
                                   operation.flags);
    case OperationKind::kSend:
      return io_uring_prep_send(entry, operation.fd, operation.address, operation.length,
                                static_cast<int>(operation.flags));
    case OperationKind::kSendMessage:
      return io_uring_prep_sendmsg(entry, operation.fd,
                                   static_cast<const msghdr*>(operation.address), operation.flags);
    case OperationKind::kPoll:
      return io_uring_prep_poll_add(entry, operation.fd, operation.flags);
  }
}

}  // namespace

Result<std::unique_ptr<UringReactor>> UringReactor::create(Kernel kernel) {
  std::unique_ptr<UringReactor> reactor(new UringReactor(kernel));
  const int error = io_uring_queue_init(kEntries, &reactor->ring_, IORING_SETUP_CLAMP);
  if (error != 0) {
    reactor->ring_.ring_fd = -1;
    Error reason = errnoError(-error, "io_uring_setup");
    reason.code = ErrorCode::kUnsupported;
    return reason;
  }
  unsigned threads[2] = {kFileThreads, 0};  // 0: the other kind stays as it is
  // Kernels before 5.15 refuse it.
  (void)io_uring_register_iowq_max_workers(&reactor->ring_, threads);
  reactor->wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (reactor->wakeup_ < 0) return errnoError(errno, "eventfd");
  const Status watching = reactor->beginWatching();
  if (!watching.ok()) return watching.error();
  return reactor;
}

// A poll that is refused completes at once. Armed again each time, it would keep the thread busy
// for ever; so this is found out before anything else runs. The poll of the trial is taken back: it
// belongs to this thread, whose kernel work its completions would wait for, and not to the one that
// will run the reactor. That one submits the poll that stays.
Status UringReactor::beginWatching() {
  int result = 0;
  for (const bool stays : {true, false}) {
    pollStays_ = stays;
    watchWakeups();
    const int submitted = io_uring_submit(&ring_);
    io_uring_cqe* entry = nullptr;
    if (submitted >= 0 && io_uring_peek_cqe(&ring_, &entry) != 0) {
      if (const int back = takeBackWatch(); back < 0) return errnoError(-back, "io_uring");
      watchWakeups();
      return {};
    }
    result = submitted < 0 ? submitted : entry->res;
    if (submitted >= 0) io_uring_cqe_seen(&ring_, entry);
  }
  Error reason = errnoError(result < 0 ? -result : EINVAL, "io_uring's poll of an eventfd");
  reason.code = ErrorCode::kUnsupported;
  return reason;
}

// Both the poll and its cancelling complete.
int UringReactor::takeBackWatch() {
  io_uring_sqe* const entry = nextEntry();
  io_uring_prep_poll_remove(entry, kWakeup);
  io_uring_sqe_set_data64(entry, kIgnored);
  io_uring_submit(&ring_);
  for (int completions = 0; completions < 2; ++completions) {
    io_uring_cqe* completion = nullptr;
    if (const int error = io_uring_wait_cqe(&ring_, &completion); error < 0) return error;
    io_uring_cqe_seen(&ring_, completion);
  }
  return 0;
}

UringReactor::~UringReactor() {
  if (wakeup_ >= 0) close(wakeup_);
  if (ring_.ring_fd >= 0) io_uring_queue_exit(&ring_);
}

io_uring_sqe* UringReactor::nextEntry() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    io_uring_submit(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  return entry;
}

void UringReactor::submit(Operation& operation) {
  io_uring_sqe* const entry = nextEntry();
  prepare(entry, operation);
  io_uring_sqe_set_data(entry, &operation);
}

void UringReactor::cancel(Operation& operation) {
  io_uring_sqe* const entry = nextEntry();
  io_uring_prep_cancel(entry, &operation, 0);
  io_uring_sqe_set_data64(entry, kIgnored);
}

void UringReactor::watchWakeups() {
  io_uring_sqe* const entry = nextEntry();
  if (pollStays_) {
    io_uring_prep_poll_multishot(entry, wakeup_, POLLIN);
    if (kernel_ == Kernel::kOlderThan513) entry->len |= kUnknownPollFlag;
  } else {
    io_uring_prep_poll_add(entry, wakeup_, POLLIN);
  }
  io_uring_sqe_set_data64(entry, kWakeup);
}

void UringReactor::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_, &one, sizeof one);
}

bool UringReactor::arrived() {
  if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);
  return io_uring_cq_ready(&ring_) != 0;
}

void UringReactor::wait(Clock::time_point deadline) {
  const auto left = deadline - std::min(deadline, Clock::now());
  io_uring_cqe* entry = nullptr;
  if (left <= Clock::duration::zero()) {
    io_uring_submit(&ring_);
  } else {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    __kernel_timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    io_uring_submit_and_wait_timeout(&ring_, &entry, 1, &time, nullptr);
  }
  // Completions resume coroutines, which may submit and even complete others: take one at a time.
  while (io_uring_peek_cqe(&ring_, &entry) == 0) {
    const std::uint64_t data = io_uring_cqe_get_data64(entry);
    const std::int32_t result = entry->res;
    const bool more = (entry->flags & IORING_CQE_F_MORE) != 0;
    io_uring_cqe_seen(&ring_, entry);
    if (data == kWakeup) {
      std::uint64_t count;
      [[maybe_unused]] const ssize_t bytes = read(wakeup_, &count, sizeof count);
      ++wakeups_;
      if (result < 0 && result != -ECANCELED) pollStays_ = false;
      // Each time where no poll stays; a kernel may also end one that did.
      if (!more) watchWakeups();
    } else if (data != kIgnored) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel keeps pointers as numbers.
      complete(*reinterpret_cast<Operation*>(data), result);
    }
  }
}

}  // namespace hearth
