#include "dataset/origin_absence.h"

#include <ctime>

namespace hearth {
namespace {

// RFC 3339, in UTC.
std::string textOf(WallClock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[sizeof "2026-11-28T14:30:00Z"];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &parts)};
}

}  // namespace

bool OriginAbsence::begin(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (++waiting_ != 1) return false;
  since_ = textOf(WallClock::now());
  why_ = why.message;
  return true;
}

bool OriginAbsence::end() {
  const std::lock_guard lock(mutex_);
  return --waiting_ == 0;
}

std::string OriginAbsence::words() const {
  const std::lock_guard lock(mutex_);
  if (waiting_ == 0) return "";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(bound()).count();
  return "reads wait for it since " + since_ + ", each for up to " + std::to_string(seconds) +
         " s: " + why_;
}

}  // namespace hearth
