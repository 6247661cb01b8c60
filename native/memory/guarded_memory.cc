#include "memory/guarded_memory.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/crc32c.h"

namespace hearth {
namespace {

// Where this thread goes when memory that it touches is not there; null outside of guarded(). The
// handler may be the first to look in a thread, and must not allocate room for it (initial-exec).
[[gnu::tls_model("initial-exec")]] thread_local sigjmp_buf* volatile escape = nullptr;

struct sigaction beforeBus, beforeSegment;

std::atomic<MemoryGuard> chosen{MemoryGuard::kHandlers};

void passOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = signal == SIGBUS ? beforeBus : beforeSegment;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  const bool sent = info->si_code <= 0;  // by kill(2) and the like: nothing has faulted
  if (sent && before.sa_handler == SIG_IGN) return;
  // The faulting instruction runs again on return, and now ends the process as it would have.
  sigaction(signal, &before, nullptr);
  if (sent) raise(signal);
}

void onFault(int signal, siginfo_t* info, void* context) {
  if (escape != nullptr) siglongjmp(*escape, 1);
  passOn(signal, info, context);
}

void installHandlers() {
  struct sigaction action {};
  action.sa_sigaction = onFault;
  // SA_NODEFER: we leave by siglongjmp, which does not unblock the signal (no mask is saved: that
  // would be a system call for each access).
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &beforeBus);
  sigaction(SIGSEGV, &action, &beforeSegment);
}

// A second time would take our own handler for the one before.
void install() {
  static std::once_flag installed;
  std::call_once(installed, installHandlers);
}

// False when `access` met memory that is not there. It is left in the middle then, and must have
// nothing to destroy.
template <class Access>
bool guarded(Access access) {
  if (chosen.load(std::memory_order_relaxed) == MemoryGuard::kSystemCalls) {
    access();
    return true;
  }
  install();
  sigjmp_buf here;
  if (sigsetjmp(here, 0) != 0) {
    escape = nullptr;
    return false;
  }
  escape = &here;
  access();
  escape = nullptr;
  return true;
}

// False when the kernel says that memory is not there; nothing where it copies for nobody, as some
// sandboxes have it.
std::optional<bool> copyBySystemCall(std::span<std::byte> into, std::span<const std::byte> from) {
  while (!from.empty()) {
    const iovec local{const_cast<std::byte*>(from.data()), from.size()};
    const iovec remote{into.data(), from.size()};
    const ssize_t copied = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    if (copied < 0) return errno == EFAULT ? std::optional(false) : std::nullopt;
    into = into.subspan(static_cast<std::size_t>(copied));
    from = from.subspan(static_cast<std::size_t>(copied));
  }
  return true;
}

}  // namespace

void chooseMemoryGuard(MemoryGuard guard) { chosen = guard; }

std::optional<std::uint32_t> checksumIfThere(std::span<const std::byte> bytes,
                                             std::uint32_t before) {
  std::uint32_t checksum = 0;
  if (!guarded([&] { checksum = crc32c(bytes, before); })) return std::nullopt;
  return checksum;
}

std::optional<std::uint32_t> checksumIfThere(const MemoryVector& memory, std::uint64_t offset,
                                             std::size_t size) {
  std::optional<std::uint32_t> checksum = 0;
  forEachPiece(memory, offset, size, [&checksum](std::span<const std::byte> piece) {
    if (checksum) checksum = checksumIfThere(piece, *checksum);
  });
  return checksum;
}

bool copyIfThere(std::span<std::byte> into, std::span<const std::byte> from) {
  if (from.empty()) return true;
  if (chosen.load(std::memory_order_relaxed) == MemoryGuard::kSystemCalls) {
    if (const std::optional<bool> copied = copyBySystemCall(into, from)) return *copied;
  }
  return guarded([&] { std::memcpy(into.data(), from.data(), from.size()); });
}

bool copyIfThere(const MemoryVector& memory, std::uint64_t offset,
                 std::span<const std::byte> from) {
  bool there = true;
  forEachPiece(memory, offset, from.size(), [&](std::span<std::byte> piece) {
    there = there && copyIfThere(piece, from.first(piece.size()));
    from = from.subspan(piece.size());
  });
  return there;
}

}  // namespace hearth
