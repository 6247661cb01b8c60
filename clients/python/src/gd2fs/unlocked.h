// A scope without the GIL, which the end of the interpreter waits for.
#pragma once

#include <condition_variable>
#include <mutex>

#include "python_object.h"

namespace hearth::python {

// A thread that asks for the GIL while the interpreter ends is unwound by pthread_exit(3), which
// C++ frames with a runtime of their own do not survive. So the end waits for such threads first.
class Unlocked {
 public:
  Unlocked();
  ~Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Returns when no other thread is in such a scope; scopes that begin later keep the GIL. With the
  // GIL, which is released meanwhile.
  static void endAll();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    unsigned scopes = 0;
    bool isEnding = false;
  };
  static Shared& shared();

  PyThreadState* thread_ = nullptr;
};

}  // namespace hearth::python
