// Knows when the other side of a connection was last seen alive, and whether its silence means
// anything: a peer that was not asked may be silent, and this thread itself may have slept. On the
// reactor's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "reactor/reactor.h"

namespace hearth {

class PeerLiveness {
 public:
  // `reactor` must remain live while this object is used.
  explicit PeerLiveness(const Reactor& reactor) : reactor_(reactor) {}

  // The first unanswered request is sent. `progress` grows with every byte that comes.
  void start(std::uint64_t progress);
  // True: the last sign is so old that the caller should call silentFor() and wantsProbe() with the
  // present progress, which costs a system call.
  [[nodiscard]] bool isDue(Clock::duration silence) const {
    return silence != Clock::duration::max() && attentive() - lastSign_ >= silence / 4;
  }
  // True: not one byte has come for so long, although requests are out and a probe was sent.
  [[nodiscard]] bool silentFor(Clock::duration silence, std::uint64_t progress);
  // True, once: half of that time has passed, and a probe must be sent now.
  [[nodiscard]] bool wantsProbe(Clock::duration silence);
  [[nodiscard]] static Error error(const std::string& node, Clock::duration silence);

 private:
  // A clock that stands still while this thread is late itself: its own silence is not the peer's.
  [[nodiscard]] Clock::time_point attentive() const { return Clock::now() - reactor_.lateness(); }
  void look(std::uint64_t progress);

  const Reactor& reactor_;
  // When the last byte came, or start(), by attentive().
  Clock::time_point lastSign_{};
  std::uint64_t progress_ = 0;
  std::optional<Clock::time_point> probed_;  // when the probe was sent
};

}  // namespace hearth
