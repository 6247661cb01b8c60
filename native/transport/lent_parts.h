// The frames in which a lent payload is sent, and how far they are. A frame that has begun holds up
// all others of its connection, so it must not need memory that can be taken back: when the socket
// has taken a piece of a frame, the rest is copied at once. Pure: not thread-safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace hearth {

class LentParts {
 public:
  // A frame, and the number of bytes of the payload that follow it.
  struct Part {
    std::vector<std::byte> frame;
    std::size_t size = 0;
  };

  LentParts() = default;
  // The parts hold the whole payload, in order.
  explicit LentParts(std::deque<Part> parts) : parts_(std::move(parts)) {}

  [[nodiscard]] bool done() const { return between() && parts_.empty(); }
  // True: no frame is half sent, so other frames may come first.
  [[nodiscard]] bool between() const { return restSent_ == rest_.size(); }
  // The bytes to send next: the rest of the part that has begun, or the next part. Without the
  // payload only the rest, perhaps nothing. Valid until sent(), and as long as `payload`.
  [[nodiscard]] std::vector<iovec> pieces(std::span<const std::byte> payload) const;
  // The first `bytes` of `pieces` have been sent.
  void sent(std::span<const iovec> pieces, std::size_t bytes);

 private:
  std::deque<Part> parts_;       // parts that have not begun
  std::vector<std::byte> rest_;  // of the part that has begun
  std::size_t restSent_ = 0;
};

}  // namespace hearth
