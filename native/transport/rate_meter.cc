#include "transport/rate_meter.h"

namespace hearth {

void RateMeter::ended(Time now, std::uint64_t bytes) {
  busy_ += now - busySince_;
  busySince_ = now;
  --underWay_;
  bytes_ += bytes;
  if (busy_ < kSample) return;
  const double sample = static_cast<double>(bytes_) / std::chrono::duration<double>(busy_).count();
  rate_ = now - measuredAt_ > kValid ? sample : rate_ + (sample - rate_) / 4;
  measuredAt_ = now;
  busy_ = {};
  bytes_ = 0;
}

}  // namespace hearth
