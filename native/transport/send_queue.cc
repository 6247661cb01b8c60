#include "transport/send_queue.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "transport/limits.h"

namespace hearth {
namespace {

constexpr std::size_t kBatchItems = 32;
// A batch ends with the item that reaches this size.
constexpr std::size_t kBatchBytes = kSliceToSendBytes;
// Pieces that one system call takes (IOV_MAX).
constexpr std::size_t kMaxPieces = 1024;

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
    // Beyond the bound the payload comes from elsewhere when its turn comes.
    lentBytes_ += item.payload.size();
    item.away = lentBytes_ > kLentBytesPerConnection;
    if (item.away) item.lent->release();
  }
  lanes_.push(std::move(item));
  ready_.set();
}

bool SendQueue::withdraw(std::uint64_t requestId, std::vector<std::byte> frame) {
  if (const auto found = lanes_.find(requestId)) {
    Item item = lanes_.take(*found);
    replace(item, std::move(frame));
    if (!item.frame.empty()) lanes_.push(std::move(item));
    ready_.set();
    return true;
  }
  if (batch_.empty()) return false;
  Item& item = batch_.front();
  if (item.requestId != requestId || !item.lent || item.parts.done()) return false;
  item.withdrawn = std::move(frame);
  return true;
}

void SendQueue::replace(Item& item, std::vector<std::byte> frame) {
  handBack(item);
  item.frame = std::move(frame);
  item.payload = {};
  item.source = {};
  item.slices.clear();
  item.keep.reset();
}

void SendQueue::takeBatch(SendLanes::Position next) {
  if (next.lane != SendLane::kSmall) return takeSlice(next);
  SendLanes::Items& items = lanes_.of(next.lane);
  std::size_t bytes = 0;
  for (auto item = items.begin();
       item != items.end() && batch_.size() < kBatchItems && bytes < kBatchBytes;) {
    if (item->lent) {
      if (!item->away) break;
      ++item;
      continue;
    }
    batch_.push_back(std::move(*item));
    item = items.erase(item);
    bytes += batch_.back().frame.size() + batch_.back().payload.size();
    begin(batch_.back());
  }
}

void SendQueue::takeSlice(SendLanes::Position from) {
  Item& item = *from.item;
  begin(item);
  if (item.slices.size() <= 1) {
    if (!item.slices.empty()) item.frame = std::move(item.slices.front().frame);
    batch_.push_back(lanes_.take(from));
    return;
  }
  LentParts::Part& part = item.slices.front();
  batch_.push_back({.frame = std::move(part.frame),
                    .payload = item.payload.first(part.size),
                    .keep = item.keep});
  item.payload = item.payload.subspan(part.size);
  item.slices.pop_front();
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

bool SendQueue::isReady(Item& item) {
  if (!item.lent) return true;
  if (item.loading) return false;
  item.away = !item.lent->now().keep;
  if (!item.away) return true;
  if (loading_ == kLoadsPerConnection) return false;
  ++loading_;
  item.loading = true;
  loads_.spawn(load(*this, item.lent));
  // The load may have ended at once; then it changed only this item.
  return !item.away;
}

Task<Status> SendQueue::writable(int fd) {
  const std::int32_t ready = co_await reactor_.poll(fd, POLLOUT);
  co_return ready < 0 ? Status(sendError(ready)) : Status();
}

Task<Status> SendQueue::sendItems(int fd) {
  for (bool waited = false, full = false; !closed_;) {
    ready_.reset();
    const auto next = lanes_.next([this](Item& item) { return isReady(item); });
    if (!next) {
      waited = false;
      co_await ready_.wait();
      continue;
    }
    const bool lent = next->item->lent != nullptr;
    // A small item may come during the wait, and then goes first. A small item itself waits only
    // for a socket that has just not taken it.
    if (!waited && (full || next->lane != SendLane::kSmall)) {
      const Status free = co_await writable(fd);
      if (!free.ok()) co_return free;
      waited = true;
      continue;
    }
    waited = full = false;
    const std::uint64_t before = sent_;
    lanes_.hadTurn(next->lane);
    if (!lent) takeBatch(*next);
    const Status sent = co_await (lent ? sendLent(fd, *next) : sendBatch(fd));
    for (const Item& each : batch_) {
      if (each.requestId != 0) sentItem_(each);
    }
    batch_.clear();
    if (!sent.ok()) co_return sent;
    full = lent && sent_ == before;
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
    // MSG_WAITALL: io_uring goes on by itself until all is sent; other backends ignore it.
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

// Runs while no part of the answer is being sent, so that the answer can still be withdrawn or end
// otherwise.
Task<void> SendQueue::load(SendQueue& queue, std::shared_ptr<LentPayload> lent) {
  Task<Status> loading = lent->load();
  const Status loaded = co_await loading;
  --queue.loading_;
  queue.ready_.set();
  Item* const item = queue.lanes_.find(*lent);
  if (item == nullptr) co_return;  // withdrawn
  item->loading = item->away = false;
  if (loaded.ok()) co_return queue.keepWithinBound();
  queue.replace(*item, std::move(item->otherwise));
}

void SendQueue::keepWithinBound() {
  std::size_t here = !batch_.empty() && batch_.front().lent ? batch_.front().payload.size() : 0;
  for (const SendLane lane : {SendLane::kSmall, SendLane::kDemand, SendLane::kBackground}) {
    bool first = true;
    for (Item& item : lanes_.of(lane)) {
      if (!item.lent || item.away || item.loading) continue;
      here += item.payload.size();
      item.away = here > kLentBytesPerConnection && !first;
      if (item.away) {
        item.lent->release();
        here -= item.payload.size();
      }
      first = false;
    }
  }
}

Task<Status> SendQueue::sendLent(int fd, SendLanes::Position next) {
  batch_.push_back(lanes_.take(next));
  begin(batch_.front());
  Status status = co_await sendParts(fd, batch_.front());
  while (status.ok() && !closed_ && !batch_.front().parts.between()) {
    // Waits without the memory, and then sends without waiting.
    status = co_await writable(fd);
    if (status.ok()) status = co_await sendParts(fd, batch_.front());
  }
  Item item = std::move(batch_.front());
  batch_.clear();
  if (!status.ok() || closed_ || item.parts.done()) {
    handBack(item);
  } else if (item.withdrawn.empty()) {
    lanes_.putBack(next.lane, std::move(item));
  } else {
    replace(item, std::move(item.withdrawn));
    lanes_.push(std::move(item));
  }
  co_return status;
}

Task<Status> SendQueue::sendParts(int fd, Item& item) {
  const LentPayload::Piece piece = item.lent->now();
  const std::vector<iovec> pieces = item.parts.pieces(piece.bytes);
  if (pieces.empty()) co_return Status();  // the memory was taken back just now
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  // Sends without the reactor: there is nothing to wait for, and an answer would leave a turn
  // later.
  const ssize_t sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  const auto result = static_cast<std::int32_t>(sent < 0 ? -errno : sent);
  if (result == -EAGAIN || result == -EINTR) co_return Status();
  if (result <= 0) co_return sendError(result);
  sent_ += static_cast<std::uint64_t>(result);
  item.parts.sent(pieces, static_cast<std::size_t>(result));
  co_return Status();
}

void SendQueue::close() {
  closed_ = true;
  lanes_.forEach([this](Item& item) { handBack(item); });
  lanes_.clear();
  ready_.set();
}

}  // namespace hearth
