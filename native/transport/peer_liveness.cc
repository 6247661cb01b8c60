#include "transport/peer_liveness.h"

namespace hearth {

void PeerLiveness::look(std::uint64_t progress) {
  if (progress == progress_) return;
  progress_ = progress;
  lastSign_ = attentive();
  probed_.reset();
}

void PeerLiveness::start(std::uint64_t progress) {
  look(progress);
  lastSign_ = attentive();
  probed_.reset();
}

bool PeerLiveness::silentFor(Clock::duration silence, std::uint64_t progress) {
  if (silence == Clock::duration::max()) return false;
  look(progress);
  const Clock::time_point now = attentive();
  return probed_ && now - *probed_ >= silence / 2 && now - lastSign_ >= silence;
}

bool PeerLiveness::wantsProbe(Clock::duration silence) {
  if (probed_ || attentive() - lastSign_ < silence / 2) return false;
  probed_ = attentive();
  return true;
}

Error PeerLiveness::error(const std::string& node, Clock::duration silence) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence);
  return {ErrorCode::kDeadlineExceeded, node + " has given no sign of life for " +
                                            std::to_string(ms.count()) +
                                            " ms; what it was asked for is asked for elsewhere"};
}

}  // namespace hearth
