// Answers to the requests that wait for a volume: each is answered once, by this agent or, after
// close(), by the next one. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_set>

#include "fuse/fuse_device.h"

namespace hearth {

class VolumeAnswers {
 public:
  static constexpr std::size_t kMaxPending = 1024;

  // `device` outlives this object.
  explicit VolumeAnswers(FuseDevice& device) : device_(device) {}

  // Fewer than kMaxPending requests wait. The others stay with the kernel: each belongs to a thread
  // of a program, and each that waits here ends by the volume's deadline.
  [[nodiscard]] bool accepts() const;
  // Before a request is worked on. False: closed, and the request is for the next agent.
  [[nodiscard]] bool begin(std::uint64_t unique);

  // True: the kernel has the answer. An errno of 0 is an answer without a body.
  bool reply(std::uint64_t unique, std::span<const std::byte> body);
  bool replyErrno(std::uint64_t unique, int error);
  template <class T>
  bool replyWith(std::uint64_t unique, const T& body) {
    return reply(unique, std::as_bytes(std::span(&body, 1)));
  }

  // Waits until nothing is pending or `limit` is over. Answers EIO to the rest, unless `leave`.
  // Later replies write nothing.
  void close(std::chrono::milliseconds limit, bool leave);
  // Requests that are not answered are the next agent's.
  [[nodiscard]] bool left() const;

 private:
  FuseDevice& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_set<std::uint64_t> pending_;
  bool closed_ = false;
  bool left_ = false;
};

}  // namespace hearth
