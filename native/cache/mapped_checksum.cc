#include "cache/mapped_checksum.h"

#include <setjmp.h>
#include <signal.h>

#include <mutex>

#include "base/crc32c.h"

namespace hearth {
namespace {

// Where this thread goes when a page that it is reading is not there; null when it is not in
// checksumMapped().
thread_local sigjmp_buf* volatile escape = nullptr;

struct sigaction before;

void onBusError(int signal, siginfo_t* info, void* context) {
  if (escape != nullptr) siglongjmp(*escape, 1);
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // The faulting instruction runs again on return, and now ends the process as it would have.
    sigaction(SIGBUS, &before, nullptr);
  }
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = onBusError;
  // SA_NODEFER: we leave by siglongjmp, which does not unblock the signal (no mask is saved: that
  // would be a system call for each checksum).
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

}  // namespace

std::optional<std::uint32_t> checksumMapped(std::span<const std::byte> bytes) {
  static std::once_flag installed;
  std::call_once(installed, install);
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    escape = nullptr;
    return std::nullopt;
  }
  escape = &here;
  const std::uint32_t checksum = crc32c(bytes);
  escape = nullptr;
  return checksum;
}

}  // namespace hearth
