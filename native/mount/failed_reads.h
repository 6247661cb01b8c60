// Opens and reads through mounts that were answered with an error. An application sees an errno
// alone, so the reason is counted and logged: once a minute for one file and reason, since what
// tries again for ever must not fill the log. Any thread.
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
  // Files and reasons that are distinguished; the failures of further ones are logged as one.
  static constexpr std::size_t kRemembered = 1024;

  // Counts a failure. A value when it is to be logged: how many like it were not since the last one
  // that was.
  [[nodiscard]] std::optional<std::uint64_t> note(const ContentKey& file, ErrorCode reason,
                                                  Clock::time_point now);
  // All that were noted, by reason.
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

// What a person may do about it.
[[nodiscard]] std::string_view adviceFor(ErrorCode reason);

}  // namespace hearth
