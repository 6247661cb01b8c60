#include "transport/send_pace.h"

namespace hearth {

bool SendPace::isTooSlow(Clock::time_point now, std::uint64_t acknowledged, bool waiting) {
  if (!waiting) {
    since_.reset();
    return false;
  }
  if (!since_) since_ = Mark{now, acknowledged};
  const Clock::duration passed = now - since_->at;
  if (passed < window_) return false;
  const double taken = static_cast<double>(acknowledged - since_->acknowledged);
  since_ = Mark{now, acknowledged};
  return taken <
         static_cast<double>(bytesPerSecond_) * std::chrono::duration<double>(passed).count();
}

}  // namespace hearth
