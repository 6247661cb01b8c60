#include "fuse/fuse_session.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "fuse/fuse_dispatcher.h"
#include "fuse/fuse_message.h"
#include "fuse/open_counts.h"

namespace hearth {
namespace {

// Threads read the requests, and each answers those that it has read.
class ThreadedSession final : public FuseSession {
 public:
  [[nodiscard]] static Result<std::unique_ptr<FuseSession>> start(
      std::shared_ptr<FuseDispatcher> dispatcher, FuseSessionOptions options);
  ~ThreadedSession() override { ThreadedSession::close(std::chrono::milliseconds(0), true); }
  void close(std::chrono::milliseconds timeout, bool handOver) override;
  FuseStatistics statistics() const override { return dispatcher_->statistics(); }
  std::string passthroughReason() const override { return dispatcher_->passthroughReason(); }

 private:
  ThreadedSession(std::shared_ptr<FuseDispatcher> dispatcher, FuseSessionOptions options)
      : dispatcher_(std::move(dispatcher)), options_(std::move(options)) {}
  void serve(int poller);
  void end(const Error& reason);

  const std::shared_ptr<FuseDispatcher> dispatcher_;
  const FuseSessionOptions options_;
  OwnedFd stop_;  // eventfd
  std::vector<OwnedFd> pollers_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
};

Result<OwnedFd> createPoller(int device, int stop) {
  OwnedFd poller(epoll_create1(EPOLL_CLOEXEC));
  if (!poller) return errnoError(errno, "create an epoll descriptor");
  // Exclusive: a request wakes one thread.
  epoll_event request{};
  request.events = EPOLLIN | EPOLLEXCLUSIVE;
  epoll_event ending{};
  ending.events = EPOLLIN;
  if (epoll_ctl(poller.get(), EPOLL_CTL_ADD, device, &request) != 0 ||
      epoll_ctl(poller.get(), EPOLL_CTL_ADD, stop, &ending) != 0) {
    return errnoError(errno, "watch /dev/fuse");
  }
  return poller;
}

Result<std::unique_ptr<FuseSession>> ThreadedSession::start(
    std::shared_ptr<FuseDispatcher> dispatcher, FuseSessionOptions options) {
  if (options.threads == 0) {
    return Error{ErrorCode::kInvalidArgument, "a FUSE session needs at least one thread"};
  }
  std::unique_ptr<ThreadedSession> session(new ThreadedSession(dispatcher, std::move(options)));
  session->stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->stop_) return errnoError(errno, "create an eventfd");
  for (unsigned i = 0; i < session->options_.threads; ++i) {
    auto poller = createPoller(dispatcher->descriptor(), session->stop_.get());
    if (!poller) return poller.error();
    session->pollers_.push_back(std::move(*poller));
  }
  if (session->options_.epoch > 1) dispatcher->resume(decodeNegotiated(session->options_.state));
  for (const OwnedFd& poller : session->pollers_) {
    session->threads_.emplace_back([self = session.get(), fd = poller.get()] { self->serve(fd); });
    pthread_setname_np(session->threads_.back().native_handle(), "hearth-fuse");
  }
  return std::unique_ptr<FuseSession>(std::move(session));
}

void ThreadedSession::close(std::chrono::milliseconds timeout, bool handOver) {
  if (stopping_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  dispatcher_->close(timeout, handOver);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadedSession::serve(int poller) {
  std::vector<std::byte> buffer(kFuseMessageBytes);
  while (!stopping_ && !ended_) {
    const auto message = readFuseMessage(dispatcher_->descriptor(), buffer);
    if (!message.ok()) return end(message.error());
    if (*message) {
      if (const Status served = dispatcher_->dispatch(**message); !served)
        return end(served.error());
      continue;
    }
    epoll_event event{};
    if (epoll_wait(poller, &event, 1, -1) < 0 && errno != EINTR)
      return end(errnoError(errno, "wait for requests"));
  }
}

void ThreadedSession::end(const Error& reason) {
  if (ended_.exchange(true)) return;
  // The other threads see /dev/fuse in the same state, or this.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  if (options_.onEnd && !stopping_) options_.onEnd(reason);
}

}  // namespace

Result<std::unique_ptr<FuseSession>> FuseSession::start(OwnedFd device, const OwnedFd& openCounts,
                                                        std::shared_ptr<MountSource> source,
                                                        FuseSessionOptions options) {
  auto counts = OpenCounts::map(openCounts);
  if (!counts) return counts.error();
  FuseDispatcherOptions dispatching;
  dispatching.passthrough = options.passthrough;
  dispatching.readAhead = options.readAhead;
  dispatching.maxParkedReads = options.maxParkedReads;
  dispatching.saveState = options.saveState;
  return ThreadedSession::start(
      std::make_shared<FuseDispatcher>(std::move(source), std::move(device), std::move(*counts),
                                       std::move(dispatching)),
      std::move(options));
}

}  // namespace hearth
