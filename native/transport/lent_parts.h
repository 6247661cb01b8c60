// The frames in which a lent payload is sent, and how far they are. A frame that has begun holds up
// all others of its connection, so it must not need memory that can be taken back: of one that the
// socket took a piece of, the rest is copied at once. Pure: not thread-safe.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>
#include <vector>

namespace hearth {

class LentParts {
 public:
  // A frame, and how many bytes of the payload follow it.
  struct Part {
    std::vector<std::byte> frame;
    std::size_t size = 0;
  };

  LentParts() = default;
  // Together all of the payload, in its order.
  explicit LentParts(std::deque<Part> parts) : parts_(std::move(parts)) {}

  [[nodiscard]] bool done() const { return between() && parts_.empty(); }
  // No frame has begun that is not sent whole: what else there is to send may come first.
  [[nodiscard]] bool between() const { return restSent_ == rest_.size(); }
  // What is to be sent next: the rest of the part that has begun, or the next one. Without the
  // payload only the rest, perhaps nothing.
  // Stays until sent(), as long as `payload`.
  [[nodiscard]] std::vector<iovec> pieces(std::span<const std::byte> payload) const;
  // The first bytes of these pieces have been sent.
  void sent(std::span<const iovec> pieces, std::size_t bytes);

 private:
  std::deque<Part> parts_;       // that have not begun
  std::vector<std::byte> rest_;  // of the one that has
  std::size_t restSent_ = 0;
};

}  // namespace hearth
