// A context of libgd2fs, and the thread that hands its completions to the queues of their requests.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <thread>

#include "client/include/xfer/gd2fs.h"

namespace hearth::python {

struct RequestObject;

// The ids of requests are RequestObjects, each with one strong reference, which its queue takes
// over when the request has ended.
class Gd2fsContext {
 public:
  // Takes `context` over.
  explicit Gd2fsContext(xfer_gd2fs_ctx* context);
  ~Gd2fsContext() { close(); }
  Gd2fsContext(const Gd2fsContext&) = delete;
  Gd2fsContext& operator=(const Gd2fsContext&) = delete;

  // Stays usable after close(), when every call answers EBADF. Any thread.
  [[nodiscard]] xfer_gd2fs_ctx* handle() const { return context_; }
  // begin() before the request is submitted, and revoke() when the submission was refused; both in
  // one hold of the GIL.
  void begin(RequestObject& request);
  void revoke(RequestObject& request);
  // Returns when nothing touches the memory any more, after `milliseconds` at the latest (-1:
  // none): 0, ETIMEDOUT or another errno. With the GIL, which is released meanwhile.
  [[nodiscard]] int drain(xfer_gd2fs_iomem* memory, int milliseconds);
  // The same without an end of time, and lets go of the memory: 0 or an errno.
  [[nodiscard]] int deregister(xfer_gd2fs_iomem* memory);
  // Returns when every request has ended and is in its queue. Idempotent; with the GIL, which is
  // released meanwhile.
  void close();

 private:
  void deliver();
  void unlink(RequestObject& request);
  static void end(RequestObject& request);

  xfer_gd2fs_ctx* const context_;
  const pid_t process_;
  std::mutex inFlight_;  // guards the list
  RequestObject* first_ = nullptr;
  std::mutex closing_;
  std::thread* taker_;  // null once joined; a child of fork(2) has none to join and leaves it
};

}  // namespace hearth::python
