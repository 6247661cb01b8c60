// Calls of a GPU's driver, which block and may never return, on threads of their own: a request
// that has waited long enough lets go of a call, and with that of all that the driver may touch.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/task.h"

namespace hearth::gd2fs {

class DriverCalls {
 public:
  // While so many calls hang that nobody waits for, none is begun.
  static constexpr int kMostHanging = 4;

  DriverCalls();
  // Does not wait: a thread ends when the call that it is in returns.
  ~DriverCalls();
  DriverCalls(const DriverCalls&) = delete;
  DriverCalls& operator=(const DriverCalls&) = delete;

  // On `reactor`'s thread. The status of `call`, which has been destroyed by then with all that it
  // holds. kDeadlineExceeded when `call` has not returned by `deadline`: it lives on until it does.
  // kUnavailable: too many hang. `deadline` may be Clock::time_point::max().
  [[nodiscard]] Task<Status> run(Reactor& reactor, Clock::time_point deadline,
                                 std::function<Status()> call);
  // The same on a thread that may block.
  [[nodiscard]] Status runHere(Clock::time_point deadline, std::function<Status()> call);

 private:
  struct Call;
  class Threads;
  const std::shared_ptr<Threads> threads_;
};

}  // namespace hearth::gd2fs
