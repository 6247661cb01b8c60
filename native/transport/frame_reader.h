// Reads frames from a socket. A buffer takes many small frames by one system call; payloads go past
// it, straight into the caller's memory. One coroutine at a time, on the reactor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/memory_vector.h"
#include "reactor/reactor.h"
#include "wire/frame.h"

namespace hearth {

// `body` is valid until the reader is used again.
struct Frame {
  FrameHeader header;
  std::span<const std::byte> body;
};

class FrameReader {
 public:
  // The caller owns `fd` and keeps it open while the reader is used. Until trust(), the reader
  // refuses a frame longer than kHandshakeFrameBytes by its header, and uses no more memory than
  // that. `reactor` must remain live while this object is used.
  FrameReader(Reactor& reactor, int fd);

  // The other side has proved who it is: its frames may be as long as the protocol allows.
  void trust() { trusted_ = true; }

  // The next frame if all of it has come already, with its checksums compared.
  [[nodiscard]] std::optional<Result<Frame>> buffered();
  // Receives more. kUnavailable at the end of the stream.
  [[nodiscard]] Task<Status> fill();
  // Fills [offset, offset + size) of `into`, host memory, with the raw bytes that follow the frame.
  // kInvalidArgument: a part of `into` is not there or cannot be written; all `size` bytes were
  // passed over, so that the stream goes on.
  [[nodiscard]] Task<Status> receive(const MemoryVector& into, std::uint64_t offset,
                                     std::size_t size);
  // The error of receive() for memory that is not there.
  [[nodiscard]] static Error memoryGone();
  // Passes over raw bytes.
  [[nodiscard]] Task<Status> skip(std::size_t size);

  // Bytes received from the socket so far.
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  // Bytes that one call may receive beyond the frame at hand: enough for many small frames.
  static constexpr std::size_t kBufferBytes = 16384;
  // Large payloads come one after the other, each behind a frame that is shorter than kFrameBytes:
  // bytes received beyond that would have to be copied.
  static constexpr std::size_t kLargePayloadBytes = 65536;
  static constexpr std::size_t kFrameBytes = 1024;

  [[nodiscard]] std::size_t available() const { return end_ - start_; }
  [[nodiscard]] Status lost(std::int32_t result) const;
  // Passes over `size` raw bytes and returns memoryGone().
  [[nodiscard]] Task<Status> passOver(std::size_t size);

  Reactor& reactor_;
  int fd_;
  std::vector<std::byte> buffer_;
  std::size_t start_ = 0, end_ = 0;  // received and unused bytes are in [start_, end_)
  std::optional<FrameHeader> header_;
  bool trusted_ = false;
  bool afterLarge_ = false;  // a large payload was the last thing that came
  std::uint64_t received_ = 0;
};

}  // namespace hearth
