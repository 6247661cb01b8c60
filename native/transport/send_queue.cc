#include "transport/send_queue.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "transport/limits.h"

namespace hearth {
namespace {

constexpr std::size_t kBatchItems = 32;
// A batch ends with the item that reaches this: large payloads go one at a time, so that what comes
// after them can still be withdrawn.
constexpr std::size_t kBatchBytes = 256 << 10;
// That one system call takes (IOV_MAX).
constexpr std::size_t kMaxPieces = 1024;

bool hasPayload(const SendQueue::Item& item) {
  return !item.payload.empty() || !item.source.empty();
}

Error sendError(std::int32_t result) {
  Error error = errnoError(result == 0 ? EPIPE : -result, "send to the other side");
  error.code = ErrorCode::kUnavailable;
  return error;
}

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

SendQueue::SendQueue(Reactor& reactor, std::function<void(const Item&)> begun,
                     std::function<void(const Item&)> sent)
    : reactor_(reactor),
      begun_(std::move(begun)),
      sentItem_(std::move(sent)),
      ready_(reactor),
      loads_(reactor) {}

void SendQueue::push(Item item) {
  if (closed_) return;
  if (item.lent) {
    // Beyond the bound it comes from elsewhere when it is its turn.
    lentBytes_ += item.payload.size();
    if (lentBytes_ > kLentBytesPerConnection) item.lent->release();
  }
  items_.push_back(std::move(item));
  ready_.set();
}

bool SendQueue::withdraw(std::uint64_t requestId, std::vector<std::byte> frame) {
  const auto isMeant = [&](const Item& item) {
    return item.requestId == requestId && hasPayload(item);
  };
  const auto found = std::find_if(items_.begin(), items_.end(), isMeant);
  if (found != items_.end()) {
    replace(*found, std::move(frame));
    if (found->frame.empty()) items_.erase(found);
    ready_.set();
    return true;
  }
  const bool sending = !batch_.empty() && isMeant(batch_.front()) && batch_.front().lent;
  if (!sending || batch_.front().parts.done()) return false;
  batch_.front().withdrawn = std::move(frame);
  return true;
}

void SendQueue::replace(Item& item, std::vector<std::byte> frame) {
  handBack(item);
  item.frame = std::move(frame);
  item.payload = {};
  item.source = {};
  item.keep.reset();
}

void SendQueue::takeBatch() {
  std::size_t bytes = 0;
  for (auto item = items_.begin();
       item != items_.end() && batch_.size() < kBatchItems && bytes < kBatchBytes;) {
    if (item->lent) {
      if (!item->away) break;
      ++item;
      continue;
    }
    batch_.push_back(std::move(*item));
    item = items_.erase(item);
    bytes +=
        batch_.back().frame.size() + batch_.back().payload.size() + batch_.back().source.size();
    begin(batch_.back());
  }
}

void SendQueue::begin(Item& item) {
  if (item.requestId != 0 && !item.begun) begun_(item);
  item.begun = true;
}

Task<Status> SendQueue::run(int fd) {
  const Status sent = co_await sendItems(fd);
  co_await loads_.close();
  co_return sent;
}

SendQueue::Items::iterator SendQueue::firstReady() {
  for (auto item = items_.begin(); item != items_.end(); ++item) {
    if (!item->lent) return item;
    if (item->loading) continue;
    item->away = !item->lent->now().keep;
    if (!item->away) return item;
    if (loading_ == kLoadsPerConnection) continue;
    ++loading_;
    item->loading = true;
    loads_.spawn(load(*this, item->lent));
    // It may have ended at once, and then it changed nothing but this item.
    if (!item->away) return item;
  }
  return items_.end();
}

Task<Status> SendQueue::sendItems(int fd) {
  while (!closed_) {
    ready_.reset();
    const auto item = firstReady();
    if (item == items_.end()) {
      co_await ready_.wait();
      continue;
    }
    const bool lent = item->lent != nullptr;
    if (!lent) takeBatch();
    const Status sent = co_await (lent ? sendLent(fd, item) : sendBatch(fd));
    for (const Item& each : batch_) {
      if (each.requestId != 0) sentItem_(each);
    }
    batch_.clear();
    if (!sent.ok()) co_return sent;
  }
  co_return Status();
}

Task<Status> SendQueue::sendBatch(int fd) {
  std::vector<iovec> vector;
  vector.reserve(2 * kBatchItems);
  for (const Item& item : batch_) {
    vector.push_back({const_cast<std::byte*>(item.frame.data()), item.frame.size()});
    if (!item.payload.empty())
      vector.push_back({const_cast<std::byte*>(item.payload.data()), item.payload.size()});
    forEachPiece(item.source, 0, item.source.size(), [&vector](std::span<std::byte> piece) {
      vector.push_back({piece.data(), piece.size()});
    });
  }
  std::span<iovec> pieces(vector);
  while (!pieces.empty()) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = std::min(pieces.size(), kMaxPieces);
    // MSG_WAITALL: io_uring goes on by itself until all is sent; elsewhere it means nothing here.
    const std::int32_t result = co_await reactor_.sendMessage(fd, &message, MSG_WAITALL);
    if (result <= 0) co_return sendError(result);
    sent_ += static_cast<std::uint64_t>(result);
    advance(pieces, static_cast<std::size_t>(result));
  }
  co_return Status();
}

void SendQueue::handBack(Item& item) {
  if (!item.lent) return;
  lentBytes_ -= item.payload.size();
  item.lent.reset();
  item.parts = {};
}

// While no part of the answer is being sent, so that it can still be withdrawn or end otherwise.
Task<void> SendQueue::load(SendQueue& queue, std::shared_ptr<LentPayload> lent) {
  Task<Status> loading = lent->load();
  const Status loaded = co_await loading;
  --queue.loading_;
  queue.ready_.set();
  const auto item = std::find_if(queue.items_.begin(), queue.items_.end(),
                                 [&](const Item& each) { return each.lent == lent; });
  if (item == queue.items_.end()) co_return;  // withdrawn
  item->loading = item->away = false;
  if (loaded.ok()) co_return;
  queue.replace(*item, std::move(item->otherwise));
}

Task<Status> SendQueue::sendLent(int fd, Items::iterator next) {
  batch_.push_back(std::move(*next));
  items_.erase(next);
  begin(batch_.front());
  Status status;
  while (status.ok() && !closed_ && !batch_.front().parts.done()) {
    Item& item = batch_.front();
    const bool withdrawn = !item.withdrawn.empty();
    if (item.parts.between() && (withdrawn || !item.lent->now().keep)) {
      if (withdrawn) replace(item, std::move(item.withdrawn));
      items_.push_front(std::move(item));
      batch_.clear();
      co_return status;
    }
    // Waits without the memory, and then sends without waiting.
    const std::int32_t ready = co_await reactor_.poll(fd, POLLOUT);
    if (ready < 0) {
      status = sendError(ready);
      break;
    }
    status = co_await sendParts(fd, batch_.front());
  }
  handBack(batch_.front());
  batch_.clear();
  co_return status;
}

Task<Status> SendQueue::sendParts(int fd, Item& item) {
  const LentPayload::Piece piece = item.lent->now();
  const std::vector<iovec> pieces = item.parts.pieces(piece.bytes);
  if (pieces.empty()) co_return Status();  // its memory was taken back just now
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  const std::int32_t result =
      co_await reactor_.sendMessage(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (result == -EAGAIN || result == -EINTR) co_return Status();
  if (result <= 0) co_return sendError(result);
  sent_ += static_cast<std::uint64_t>(result);
  item.parts.sent(pieces, static_cast<std::size_t>(result));
  co_return Status();
}

void SendQueue::close() {
  closed_ = true;
  for (Item& item : items_) handBack(item);
  items_.clear();
  ready_.set();
}

}  // namespace hearth
