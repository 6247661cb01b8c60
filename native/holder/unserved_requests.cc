#include "holder/unserved_requests.h"

#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "holder/fuse_backing.h"

namespace hearth {
namespace {

// A machine that stood still wakes its processes in any order: an agent that serves says so now.
constexpr auto kConfirmation = std::chrono::milliseconds(100);
// How often the holder looks whether an agent serves the mount again, or has begun to.
constexpr auto kLook = std::chrono::milliseconds(100);
constexpr auto kLookRarely = std::chrono::seconds(1);
// In a row, after which the holder's clients have their turn.
constexpr int kMaxInRow = 1024;

// Any request but a long WRITE, which the kernel fails with EIO when it does not fit.
std::array<std::byte, 128 * 1024> message;

bool write(int device, std::uint64_t unique, std::int32_t code) {
  fuse_out_header header{};
  header.len = sizeof header;
  header.error = code;
  header.unique = unique;
  return ::write(device, &header, sizeof header) == sizeof header;
}

}  // namespace

std::optional<std::string> UnservedRequests::end(int device, Clock::time_point now) {
  if (over_) return std::nullopt;
  if (now < watch_.until()) {
    silentSince_.reset();
    if (!std::exchange(answers_, false)) return std::nullopt;
    return "is served again; " + std::to_string(watch_.ended() - endedBefore_) +
           " requests were answered with EIO meanwhile";
  }
  if (!silentSince_) silentSince_ = now;
  if (now < *silentSince_ + kConfirmation) return std::nullopt;
  std::optional<std::string> line;
  if (!std::exchange(answers_, true)) {
    endedBefore_ = watch_.ended();
    // Older kernels keep what the agent has read.
    const bool resent = write(device, 0, kFuseNotifyResend);
    line = std::string("is not served, and its requests end with EIO until it is") +
           (resent ? "" : "; this kernel (before Linux 6.9) keeps those that its agent has read");
  }
  answerAll(device);
  return line;
}

Clock::time_point UnservedRequests::due(Clock::time_point now) const {
  if (over_) return Clock::time_point::max();
  if (answers_) return now + kLook;
  if (silentSince_) return *silentSince_ + kConfirmation;
  return std::min(watch_.until(), now + kLookRarely);
}

void UnservedRequests::answerAll(int device) {
  for (int i = 0; i < kMaxInRow; ++i) {
    const ssize_t bytes = ::read(device, message.data(), message.size());
    if (bytes >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
      answer(device, static_cast<std::size_t>(bytes));
    } else if (bytes >= 0 || errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ENOENT) {  // ENOENT: it was interrupted just now
      over_ = true;
      answers_ = false;
      return;
    }
  }
}

void UnservedRequests::answer(int device, std::size_t bytes) {
  fuse_in_header header{};
  std::memcpy(&header, message.data(), std::min(bytes, sizeof header));
  switch (header.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;
    case FUSE_INIT:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      watch_.countLeft();
      return;
    default:
      // Counted first, so that the program that got it finds it counted.
      watch_.countEnded();
      (void)write(device, header.unique, -EIO);
  }
}

}  // namespace hearth
