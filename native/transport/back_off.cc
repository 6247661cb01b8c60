#include "transport/back_off.h"

#include <algorithm>
#include <random>

namespace hearth {

void BackOff::failed() {
  pause(std::clamp<Clock::duration>(last_ * 2, kFirstBackOff, kLongestBackOff));
}

void BackOff::pause(Clock::duration pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  last_ = pause;
  // Between half and all of the pause.
  notBefore_ = Clock::now() + pause / 2 + pause * static_cast<int>(random() % 1024) / 2048;
}

}  // namespace hearth
