#include "transport/back_off.h"

#include <algorithm>

#include "base/back_off.h"

namespace hearth {

void BackOff::failed() {
  pause(std::clamp<Clock::duration>(last_ * 2, kFirstBackOff, kLongestBackOff));
}

void BackOff::pause(Clock::duration pause) {
  last_ = pause;
  notBefore_ = Clock::now() + jittered(pause);
}

}  // namespace hearth
