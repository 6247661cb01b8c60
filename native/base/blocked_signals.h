// Threads of a library take no signals: a handler of the program, or of Python, is to run on the
// program's own threads, whose calls it interrupts.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace hearth {

// While it lives, the calling thread blocks all signals but those that a thread raises itself by a
// fault, and so do threads that it starts, for good.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace hearth
