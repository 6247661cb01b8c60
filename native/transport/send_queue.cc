#include "transport/send_queue.h"

#include <algorithm>
#include <cerrno>

namespace hearth {
namespace {

constexpr std::size_t kBatchItems = 32;
// A batch ends with the item that reaches this: large payloads go one at a time, so that what comes
// after them can still be withdrawn.
constexpr std::size_t kBatchBytes = 256 << 10;

void advance(std::span<iovec>& pieces, std::size_t bytes) {
  while (!pieces.empty() && bytes >= pieces.front().iov_len) {
    bytes -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (pieces.empty()) return;
  pieces.front().iov_base = static_cast<std::byte*>(pieces.front().iov_base) + bytes;
  pieces.front().iov_len -= bytes;
}

}  // namespace

SendQueue::SendQueue(Reactor& reactor, std::function<void(const Item&)> begun)
    : reactor_(reactor), begun_(std::move(begun)), ready_(reactor) {}

void SendQueue::push(Item item) {
  if (closed_) return;
  items_.push_back(std::move(item));
  ready_.set();
}

bool SendQueue::withdraw(std::uint64_t requestId, std::vector<std::byte> frame) {
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
    return item.requestId == requestId && !item.payload.empty();
  });
  if (found == items_.end()) return false;
  found->frame = std::move(frame);
  found->payload = {};
  found->keep.reset();
  return true;
}

void SendQueue::takeBatch() {
  std::size_t bytes = 0;
  while (!items_.empty() && batch_.size() < kBatchItems && bytes < kBatchBytes) {
    batch_.push_back(std::move(items_.front()));
    items_.pop_front();
    bytes += batch_.back().frame.size() + batch_.back().payload.size();
    if (batch_.back().requestId != 0) begun_(batch_.back());
  }
}

Task<Status> SendQueue::run(int fd) {
  std::vector<iovec> vector;
  vector.reserve(2 * kBatchItems);
  while (!closed_) {
    if (items_.empty()) {
      ready_.reset();
      co_await ready_.wait();
      continue;
    }
    takeBatch();
    vector.clear();
    for (const Item& item : batch_) {
      vector.push_back({const_cast<std::byte*>(item.frame.data()), item.frame.size()});
      if (item.payload.empty()) continue;
      vector.push_back({const_cast<std::byte*>(item.payload.data()), item.payload.size()});
    }
    std::span<iovec> pieces(vector);
    while (!pieces.empty()) {
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = pieces.size();
      // MSG_WAITALL: io_uring goes on by itself until all is sent; elsewhere it means nothing here.
      const std::int32_t result = co_await reactor_.sendMessage(fd, &message, MSG_WAITALL);
      if (result <= 0) {
        batch_.clear();
        Error error = errnoError(result == 0 ? EPIPE : -result, "send to the other side");
        error.code = ErrorCode::kUnavailable;
        co_return error;
      }
      sent_ += static_cast<std::uint64_t>(result);
      advance(pieces, static_cast<std::size_t>(result));
    }
    batch_.clear();
  }
  co_return Status();
}

void SendQueue::close() {
  closed_ = true;
  items_.clear();
  ready_.set();
}

}  // namespace hearth
