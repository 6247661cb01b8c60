// When the other side of a connection was last seen alive, and whether its silence means anything:
// who was not asked may well be silent, and so may we have slept. On the reactor's thread.
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

  // The first of the requests is sent that are unanswered. `progress`: grows with every byte that
  // comes.
  void start(std::uint64_t progress);
  // The last sign is old enough that silentFor() and wantsProbe() are to be asked with how far the
  // other side has come by now, which costs a system call.
  [[nodiscard]] bool isDue(Clock::duration silence) const {
    return silence != Clock::duration::max() && attentive() - lastSign_ >= silence / 4;
  }
  // Not one byte has come for so long, although something was asked for and a probe was sent.
  [[nodiscard]] bool silentFor(Clock::duration silence, std::uint64_t progress);
  // Half of that time has passed: a probe is to be sent now, unless one was. True once.
  [[nodiscard]] bool wantsProbe(Clock::duration silence);
  [[nodiscard]] static Error error(const std::string& node, Clock::duration silence);

 private:
  // A clock that stands still while this thread is late itself: then silence is not the other's.
  [[nodiscard]] Clock::time_point attentive() const { return Clock::now() - reactor_.lateness(); }
  void look(std::uint64_t progress);

  const Reactor& reactor_;
  // By that clock: when the last byte came, or start().
  Clock::time_point lastSign_{};
  std::uint64_t progress_ = 0;
  std::optional<Clock::time_point> probed_;  // since then
};

}  // namespace hearth
