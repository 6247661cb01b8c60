// Requests that have ended, on their way from the thread that takes completions to the thread of
// Python that asks for them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include "base/owned_fd.h"

namespace hearth::python {

struct RequestObject;

// Any thread, without the GIL unless said otherwise. An element stands for one strong reference,
// which whoever takes the element releases.
class EndedRequests {
 public:
  EndedRequests();  // isOpen() is false when the process has no descriptor left

  [[nodiscard]] bool isOpen() const { return static_cast<bool>(event_); }
  // Readable while there is something to take, and for good once close() was called.
  [[nodiscard]] int descriptor() const { return event_.get(); }

  // One more request will come, or will not come after all. With the GIL, as take() is.
  void expect() { ++expected_; }
  void forgo() { --expected_; }
  // False while a request is expected that was not yet taken.
  [[nodiscard]] bool isIdle() const { return expected_ == 0; }

  void push(RequestObject* request);
  // All that have ended, in the order in which they did.
  [[nodiscard]] std::vector<RequestObject*> take();
  // Waits until take() has something, close() was called, `timeout` is over (none: for ever) or a
  // signal came; false only for a signal. Without the GIL.
  [[nodiscard]] bool await(std::optional<std::chrono::milliseconds> timeout) const;
  void close();
  // Nothing more will come: after close(), and in a child of fork(2), which has no threads that
  // could push.
  [[nodiscard]] bool isOver() const;

 private:
  const OwnedFd event_;
  const pid_t process_;
  std::size_t expected_ = 0;
  mutable std::mutex mutex_;  // guards the two below
  std::vector<RequestObject*> ended_;
  bool isClosed_ = false;
};

}  // namespace hearth::python
