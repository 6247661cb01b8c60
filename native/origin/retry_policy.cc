#include "origin/retry_policy.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace hearth {
namespace {

constexpr std::chrono::seconds kLongestRetryAfter{60};

}  // namespace

Clock::duration RetryPolicy::delay(int failures, std::optional<Clock::duration> retryAfter) {
  Clock::duration interval = first_;
  for (int i = 1; i < failures && interval < longest_; ++i) interval *= 2;
  interval = std::min(interval, longest_);
  std::uniform_int_distribution<Clock::rep> part(0, interval.count());
  const Clock::duration jitter(part(random_));
  // Spreads clients that got the same time behind it.
  return retryAfter ? *retryAfter + std::min(jitter, first_) : jitter;
}

std::optional<Clock::duration> RetryPolicy::parseRetryAfter(
    std::string_view value, std::chrono::system_clock::time_point now) {
  std::uint64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc::result_out_of_range) return kLongestRetryAfter;
  if (error == std::errc() && end == value.data() + value.size()) {
    return std::min<Clock::duration>(std::chrono::seconds(std::min<std::uint64_t>(seconds, 60)),
                                     kLongestRetryAfter);
  }
  const std::time_t date = curl_getdate(std::string(value).c_str(), nullptr);
  if (date == -1) return std::nullopt;
  const auto wait = std::chrono::system_clock::from_time_t(date) - now;
  return std::clamp<Clock::duration>(wait, Clock::duration::zero(), kLongestRetryAfter);
}

}  // namespace hearth
