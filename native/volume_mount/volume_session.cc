#include "volume_mount/volume_session.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <latch>
#include <utility>
#include <vector>

#include "fuse/fuse_message.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

// Requests in a row, after which other work of the reactor has its turn.
constexpr int kMaxInRow = 16;
// Until a full service accepts again.
constexpr Clock::duration kFullPause = std::chrono::milliseconds(1);
// From one tick of the service to the next; well below the deadline of any volume.
constexpr Clock::duration kTick = std::chrono::milliseconds(100);

struct Watched {
  OwnedFd stop;    // eventfd
  OwnedFd poller;  // of the device and `stop`
};

Result<Watched> watch(int device) {
  Watched watched{OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                  OwnedFd(epoll_create1(EPOLL_CLOEXEC))};
  if (!watched.stop || !watched.poller) return errnoError(errno, "create descriptors of a session");
  epoll_event readable{};
  readable.events = EPOLLIN;
  for (const int descriptor : {device, watched.stop.get()}) {
    if (epoll_ctl(watched.poller.get(), EPOLL_CTL_ADD, descriptor, &readable) != 0)
      return errnoError(errno, "watch /dev/fuse");
  }
  return watched;
}

class VolumeSession final : public FuseSession {
 public:
  VolumeSession(std::shared_ptr<VolumeService> service, FuseSessionOptions options, Watched watched)
      : service_(std::move(service)),
        options_(std::move(options)),
        watched_(std::move(watched)),
        ended_(service_->reactor()) {
    service_->reactor().post([this] { spawn(serve(served_)); });
  }
  ~VolumeSession() override { VolumeSession::close(std::chrono::milliseconds(0), true); }

  void close(std::chrono::milliseconds timeout, bool handOver) override;
  FuseStatistics statistics() const override { return service_->statistics(); }
  std::string passthroughReason() const override { return service_->passthroughReason(); }

 private:
  // close() waits for `served`, which outlives the session.
  [[nodiscard]] Task<void> serve(std::shared_ptr<std::latch> served);
  [[nodiscard]] Task<Status> serveUntilStopped();
  // Until stop() or the end of serve().
  [[nodiscard]] Task<void> tick();
  // The requests that the holder has left to this agent.
  [[nodiscard]] Task<Status> takeLeft();

  const std::shared_ptr<VolumeService> service_;
  const FuseSessionOptions options_;
  const Watched watched_;
  std::atomic<bool> stopping_{false};
  Event ended_;
  const std::shared_ptr<std::latch> served_ = std::make_shared<std::latch>(1);
};

Task<void> VolumeSession::serve(std::shared_ptr<std::latch> served) {
  service_->tick();
  if (options_.epoch > 1) service_->resume(decodeNegotiated(options_.state));
  Gate ticking(service_->reactor());
  ticking.spawn(tick());
  const Status ended = co_await serveUntilStopped();
  ended_.set();
  co_await ticking.close();
  if (!ended.ok() && options_.onEnd && !stopping_) options_.onEnd(ended.error());
  served->count_down();
}

Task<Status> VolumeSession::serveUntilStopped() {
  Reactor& reactor = service_->reactor();
  std::vector<std::byte> buffer(kFuseMessageBytes);
  int inRow = 0;
  while (!stopping_) {
    if (!service_->accepts()) {
      co_await reactor.sleep(kFullPause);
      continue;
    }
    const auto message = readFuseMessage(service_->descriptor(), buffer);
    if (!message.ok()) co_return message.error();
    if (!*message) {
      inRow = 0;
      (void)co_await reactor.poll(watched_.poller.get(), POLLIN);
      continue;
    }
    Status dispatched = co_await service_->dispatch(**message);
    if (!dispatched.ok()) co_return dispatched;
    if (++inRow % kMaxInRow == 0) co_await reactor.sleep(Clock::duration::zero());
  }
  co_return Status();
}

Task<void> VolumeSession::tick() {
  while (!stopping_ && !co_await ended_.waitUntil(Clock::now() + kTick)) {
    service_->tick();
    if (service_->askAgain() && !(co_await takeLeft()).ok()) co_return;
  }
}

// No request is answered before all are read that the kernel sends again, so each of those is known
// as one that is being worked on.
Task<Status> VolumeSession::takeLeft() {
  std::vector<std::byte> buffer(kFuseMessageBytes);
  std::vector<std::vector<std::byte>> messages;
  for (;;) {
    const auto message = readFuseMessage(service_->descriptor(), buffer);
    if (!message.ok()) co_return message.error();
    if (!*message) break;
    messages.emplace_back((*message)->begin(), (*message)->end());
  }
  for (const std::vector<std::byte>& message : messages) {
    Status dispatched = co_await service_->dispatch(message);
    if (!dispatched.ok()) co_return dispatched;
  }
  co_return Status();
}

void VolumeSession::close(std::chrono::milliseconds timeout, bool handOver) {
  if (stopping_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(watched_.stop.get(), &one, sizeof one);
  service_->close(timeout, handOver);
  served_->wait();
}

}  // namespace

Result<std::unique_ptr<FuseSession>> startVolumeSession(std::shared_ptr<VolumeService> service,
                                                        FuseSessionOptions options) {
  Result<Watched> watched = watch(service->descriptor());
  if (!watched.ok()) return watched.error();
  return std::unique_ptr<FuseSession>(
      std::make_unique<VolumeSession>(std::move(service), std::move(options), std::move(*watched)));
}

}  // namespace hearth
