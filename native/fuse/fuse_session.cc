#include "fuse/fuse_session.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "fuse/fuse_dispatcher.h"
#include "fuse/open_counts.h"

namespace hearth {
namespace {

// Holds any request of a mount that takes no WRITE (the longest is SETXATTR, with 64 KiB), and long
// lists of forgotten nodes.
constexpr std::size_t kBufferBytes = 128 * 1024;

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
  return start(std::make_shared<FuseDispatcher>(std::move(source), std::move(device),
                                                std::move(*counts), std::move(dispatching)),
               std::move(options));
}

Result<std::unique_ptr<FuseSession>> FuseSession::start(std::shared_ptr<FuseService> service,
                                                        FuseSessionOptions options) {
  if (options.threads == 0) {
    return Error{ErrorCode::kInvalidArgument, "a FUSE session needs at least one thread"};
  }
  std::unique_ptr<FuseSession> session(new FuseSession(service, std::move(options)));
  session->stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->stop_) return errnoError(errno, "create an eventfd");
  for (unsigned i = 0; i < session->options_.threads; ++i) {
    auto poller = createPoller(service->descriptor(), session->stop_.get());
    if (!poller) return poller.error();
    session->pollers_.push_back(std::move(*poller));
  }
  if (session->options_.epoch > 1) service->resume(decodeNegotiated(session->options_.state));
  for (const OwnedFd& poller : session->pollers_) {
    session->threads_.emplace_back([self = session.get(), fd = poller.get()] { self->serve(fd); });
    pthread_setname_np(session->threads_.back().native_handle(), "hearth-fuse");
  }
  return session;
}

FuseSession::FuseSession(std::shared_ptr<FuseService> service, FuseSessionOptions options)
    : service_(std::move(service)), options_(std::move(options)) {}

FuseSession::~FuseSession() { close(std::chrono::milliseconds(0), true); }

void FuseSession::close(std::chrono::milliseconds timeout, bool handOver) {
  if (stopping_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  service_->close(timeout, handOver);
  for (std::thread& thread : threads_) thread.join();
}

void FuseSession::serve(int poller) {
  std::vector<std::byte> buffer(kBufferBytes);
  bool empty = false;
  while (!stopping_ && !ended_) {
    if (empty) {
      epoll_event event{};
      if (epoll_wait(poller, &event, 1, -1) < 0 && errno != EINTR) {
        end(errnoError(errno, "wait for requests"));
        return;
      }
      if (stopping_) return;
    }
    if (!serveOne(buffer, empty)) return;
  }
}

bool FuseSession::serveOne(std::span<std::byte> buffer, bool& empty) {
  const ssize_t size = read(service_->descriptor(), buffer.data(), buffer.size());
  const int error = size < 0 ? errno : 0;
  empty = error == EAGAIN;
  switch (error) {
    case 0:
      break;
    case EAGAIN:
    case EINTR:
    case ENOENT:  // the request was interrupted before we got it
      return true;
    case ENODEV:
      end({ErrorCode::kCancelled, "unmounted"});
      return false;
    case ECONNABORTED:
      end({ErrorCode::kUnavailable,
           "the FUSE connection was aborted from outside; unmount the folder and mount it again"});
      return false;
    default:
      end(errnoError(error, "read requests from /dev/fuse"));
      return false;
  }
  if (Status served = service_->dispatch(buffer.first(static_cast<std::size_t>(size))); !served) {
    end(served.error());
    return false;
  }
  return true;
}

void FuseSession::end(const Error& reason) {
  if (ended_.exchange(true)) return;
  // The other threads see /dev/fuse in the same state, or this.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  if (options_.onEnd && !stopping_) options_.onEnd(reason);
}

}  // namespace hearth
