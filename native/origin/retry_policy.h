// How long to wait before the next attempt: exponential back-off with full jitter (a random part of
// the whole interval, so that clients that failed together do not come back together). One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string_view>

#include "reactor/reactor.h"

namespace hearth {

class RetryPolicy {
 public:
  RetryPolicy(Clock::duration first, Clock::duration longest, std::uint64_t seed)
      : first_(first), longest_(longest), random_(seed) {}

  // `failures` >= 1 in a row; `retryAfter`: what the server asked for, which is waited at least.
  [[nodiscard]] Clock::duration delay(int failures, std::optional<Clock::duration> retryAfter);

  // Retry-After (RFC 9110 10.2.3): seconds or a date, at most a minute; nothing when malformed.
  [[nodiscard]] static std::optional<Clock::duration> parseRetryAfter(
      std::string_view value, std::chrono::system_clock::time_point now);

 private:
  const Clock::duration first_;
  const Clock::duration longest_;
  std::mt19937_64 random_;
};

}  // namespace hearth
