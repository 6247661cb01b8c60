#include "transport/frame_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "memory/guarded_memory.h"
#include "transport/limits.h"

namespace hearth {
namespace {

// Pieces that one system call fills.
constexpr std::size_t kMaxPieces = 64;

// Gathers pieces of the next `size` bytes and returns their number; leaves the last ones out when
// there are too many.
std::size_t gather(MemoryCursor from, std::size_t size, std::span<iovec> pieces) {
  std::size_t count = 0;
  for (; size != 0 && count < pieces.size(); ++count) {
    const std::span<std::byte> piece = from.next(size);
    pieces[count] = {piece.data(), piece.size()};
    size -= piece.size();
  }
  return count;
}

}  // namespace

FrameReader::FrameReader(Reactor& reactor, int fd)
    : reactor_(reactor), fd_(fd), buffer_(kHandshakeFrameBytes) {}

std::optional<Result<Frame>> FrameReader::buffered() {
  if (!header_) {
    if (available() < kFrameHeaderBytes) return std::nullopt;
    Result<FrameHeader> decoded =
        decodeHeader(std::span<const std::byte>(buffer_).subspan(start_, kFrameHeaderBytes));
    if (!decoded.ok()) return decoded.error();
    if (!trusted_ && decoded->bodyLength > kHandshakeFrameBytes - kFrameHeaderBytes) {
      return Error{ErrorCode::kProtocolError, "the other side sent a frame of " +
                                                  std::to_string(decoded->bodyLength) +
                                                  " bytes before the proof of who it is"};
    }
    header_ = *decoded;
  }
  const std::size_t size = kFrameHeaderBytes + header_->bodyLength;
  if (available() < size) return std::nullopt;
  const Frame frame{*header_, std::span<const std::byte>(buffer_).subspan(
                                  start_ + kFrameHeaderBytes, header_->bodyLength)};
  header_.reset();
  start_ += size;
  const Status intact = checkBody(frame.header, frame.body);
  if (!intact.ok()) return intact.error();
  return frame;
}

Task<Status> FrameReader::fill() {
  const std::size_t wanted = std::max(trusted_ ? kBufferBytes : kHandshakeFrameBytes,
                                      header_ ? kFrameHeaderBytes + header_->bodyLength : 0);
  if (start_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + start_, available());
    end_ -= start_;
    start_ = 0;
  }
  // The buffer grows for a long body and shrinks again after it.
  if (buffer_.size() != wanted && end_ <= wanted) {
    buffer_.resize(wanted);
    buffer_.shrink_to_fit();
  }
  std::span<std::byte> room = std::span(buffer_).subspan(end_);
  if (std::exchange(afterLarge_, false) && available() == 0 && !header_)
    room = room.first(std::min(room.size(), kFrameBytes));
  const std::int32_t result = co_await reactor_.receive(fd_, room);
  if (result <= 0) co_return lost(result);
  end_ += static_cast<std::size_t>(result);
  received_ += static_cast<std::size_t>(result);
  co_return Status();
}

// SO_RCVLOWAT would save wake-ups, but io_uring waits for the mark again after a part of the buffer
// has come, when fewer bytes than the mark may be left to come: the read stalls (measured, and no
// faster).
Task<Status> FrameReader::receive(const MemoryVector& into, std::uint64_t offset,
                                  std::size_t size) {
  const std::size_t ready = std::min(available(), size);
  const bool there =
      copyIfThere(into, offset, std::span<const std::byte>(buffer_).subspan(start_, ready));
  start_ += ready;
  std::size_t left = size - ready;
  if (!there) co_return co_await passOver(left);
  for (MemoryCursor cursor(into, offset + size - left); left != 0;) {
    std::int32_t result = 0;
    if (const auto piece = MemoryCursor(cursor).next(left); piece.size() == left) {
      result = co_await reactor_.receive(fd_, piece, MSG_WAITALL);
    } else {
      std::array<iovec, kMaxPieces> pieces;
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = gather(cursor, left, pieces);
      result = co_await reactor_.receiveMessage(fd_, &message, MSG_WAITALL);
    }
    // The kernel leaves bytes that it could not place in the socket, so the next receive gets them.
    if (result == -EFAULT) co_return co_await passOver(left);
    if (result <= 0) co_return lost(result);
    received_ += static_cast<std::size_t>(result);
    cursor.skip(static_cast<std::size_t>(result));
    left -= static_cast<std::size_t>(result);
  }
  afterLarge_ = size >= kLargePayloadBytes;
  co_return Status();
}

Error FrameReader::memoryGone() {
  return {ErrorCode::kInvalidArgument,
          "memory that bytes were to be read into is not mapped any more, or cannot be written"};
}

Task<Status> FrameReader::passOver(std::size_t size) {
  const Status skipped = co_await skip(size);
  co_return skipped.ok() ? Status(memoryGone()) : skipped;
}

Task<Status> FrameReader::skip(std::size_t size) {
  while (size > 0) {
    if (available() == 0) {
      const Status filled = co_await fill();
      if (!filled.ok()) co_return filled;
    }
    const std::size_t passed = std::min(available(), size);
    start_ += passed;
    size -= passed;
  }
  co_return Status();
}

Status FrameReader::lost(std::int32_t result) const {
  if (result < 0) {
    Error error = errnoError(-result, "receive from the other side");
    error.code = ErrorCode::kUnavailable;
    return error;
  }
  return Error{ErrorCode::kUnavailable, available() > 0 || header_
                                            ? "the other side closed the connection inside a frame"
                                            : "the other side closed the connection"};
}

}  // namespace hearth
