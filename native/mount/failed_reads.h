// Counts and logs opens and reads through mounts that ended with an error, as an application sees
// an errno alone. Logs once a minute for one file and reason, so that an application that tries
// again for ever does not fill the log. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/content_key.h"
#include "base/result.h"
#include "reactor/reactor.h"

namespace hearth {

class FailedReads {
 public:
  static constexpr auto kPause = std::chrono::minutes(1);
  // Files and reasons that are told apart; the failures of further ones are logged as one.
  static constexpr std::size_t kRemembered = 1024;

  // Counts a failure. A value: log this one; the number of failures like it that were not logged
  // since the last that was.
  [[nodiscard]] std::optional<std::uint64_t> note(const ContentKey& file, ErrorCode reason,
                                                  Clock::time_point now);
  // All noted failures, by reason.
  [[nodiscard]] std::map<ErrorCode, std::uint64_t> counts() const;

 private:
  using Kind = std::pair<ContentKey, ErrorCode>;
  struct Logged {
    Clock::time_point at;
    std::uint64_t suppressed = 0;
  };

  mutable std::mutex mutex_;
  std::map<ErrorCode, std::uint64_t> counts_;
  std::map<Kind, Logged> logged_;
};

// Advice to a person about the failure.
[[nodiscard]] std::string_view adviceFor(ErrorCode reason);

}  // namespace hearth
