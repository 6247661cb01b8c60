// /dev/fuse of one connection: replies, notifications and backing files. The descriptor is
// non-blocking and shared with the mount holder. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

class FuseDevice {
 public:
  explicit FuseDevice(OwnedFd fd) : fd_(std::move(fd)) {}

  // Answers a request with `body` and `rest`, without copying them, or with an errno above 0. False
  // when the kernel no longer waits for the answer, or could not take it: then it was not
  // delivered.
  bool reply(std::uint64_t unique, std::span<const std::byte> body,
             std::span<const std::byte> rest = {});
  bool replyError(std::uint64_t unique, int error);
  template <class T>
  bool replyWith(std::uint64_t unique, const T& body) {
    return reply(unique, std::as_bytes(std::span(&body, 1)));
  }

  // Asks for the requests that an earlier agent read and did not answer (Linux 6.9). False when
  // this kernel cannot.
  bool resend();

  // Registers a file for passthrough and returns its backing id. Errors name the kernel's reason.
  [[nodiscard]] Result<std::int32_t> openBacking(int file);
  // Files that are open keep their backing file.
  void closeBacking(std::int32_t id);

  [[nodiscard]] int descriptor() const { return fd_.get(); }

 private:
  bool write(std::uint64_t unique, std::int32_t code, std::span<const std::byte> body,
             std::span<const std::byte> rest = {});

  OwnedFd fd_;
};

}  // namespace hearth
