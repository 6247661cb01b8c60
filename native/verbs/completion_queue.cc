#include "verbs/completion_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

namespace hearth {

Error errorOf(const ibv_wc& completion) {
  switch (completion.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {ErrorCode::kUnavailable, "the other RDMA port does not answer"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {ErrorCode::kUnavailable, "the other RDMA endpoint posts no receives"};
    case IBV_WC_REM_ACCESS_ERR:
      return {ErrorCode::kPermissionDenied, "the key does not open that memory of the other side"};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return {ErrorCode::kProtocolError, "the other RDMA endpoint refused a request as malformed"};
    case IBV_WC_WR_FLUSH_ERR:
      return {ErrorCode::kUnavailable, "the RDMA endpoint failed before this request"};
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
      return {ErrorCode::kInternal, "the RDMA device refused a request of ours (status " +
                                        std::to_string(completion.status) + ")"};
    // Local errors of the queue pair among them: so soft-RoCE reports an interface that has gone.
    default:
      return {ErrorCode::kUnavailable, "an RDMA request failed (status " +
                                           std::to_string(completion.status) + ", vendor's " +
                                           std::to_string(completion.vendor_err) + ")"};
  }
}

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(std::shared_ptr<RdmaDevice> device,
                                                                 std::uint32_t entries) {
  std::unique_ptr<CompletionQueue> made(new CompletionQueue(std::move(device)));
  Verbs& verbs = made->device_->verbs();
  const auto failed = [&](const char* what) {
    return errnoError(errno, what).within(made->device_->name());
  };
  errno = ENOMEM;
  made->channel_ = verbs.createCompChannel(made->device_->context());
  if (made->channel_ == nullptr) return failed("creating a channel of completions");
  const int flags = ::fcntl(made->channel_->fd, F_GETFL);
  if (flags < 0 || ::fcntl(made->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return failed("preparing a channel of completions");
  made->entries_ = std::min(entries, made->device_->limits().completions);
  made->queue_ =
      verbs.createCq(made->device_->context(), static_cast<int>(made->entries_), made->channel_);
  if (made->queue_ == nullptr) return failed("creating a completion queue");
  return made;
}

CompletionQueue::~CompletionQueue() {
  if (queue_ != nullptr) {
    takeEvents();
    device_->verbs().destroyCq(queue_);
  }
  if (channel_ != nullptr) device_->verbs().destroyCompChannel(channel_);
}

std::uint32_t CompletionQueue::poll(std::uint32_t most) {
  std::array<ibv_wc, 16> batch;
  std::uint32_t done = 0;
  while (done < most) {
    const auto want = std::min<std::uint32_t>(batch.size(), most - done);
    const int got = device_->verbs().pollCq(queue_, static_cast<int>(want), batch.data());
    if (got <= 0) break;
    for (int at = 0; at < got; ++at) {
      const ibv_wc& completion = batch[static_cast<std::size_t>(at)];
      const auto taker = takers_.find(completion.qp_num);
      if (taker == takers_.end()) {
        ++strays_;
      } else {
        taker->second->onCompletion(completion);
      }
    }
    done += static_cast<std::uint32_t>(got);
    if (static_cast<std::uint32_t>(got) < want) break;
  }
  taken_ += done;
  return done;
}

Status CompletionQueue::arm() {
  const int error = device_->verbs().reqNotifyCq(queue_);
  if (error == 0) return {};
  return errnoError(error < 0 ? errno : error, "arming a completion queue").within(device_->name());
}

void CompletionQueue::takeEvents() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (device_->verbs().getCqEvent(channel_, &queue, &context) == 0) ++events;
  if (events != 0) device_->verbs().ackCqEvents(queue_, events);
}

bool CompletionQueue::reserve(std::uint32_t entries) {
  if (!hasRoom(entries)) return false;
  reserved_ += entries;
  return true;
}

}  // namespace hearth
