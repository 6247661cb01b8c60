#include "memory/guarded_memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/crc32c.h"
#include "base/owned_fd.h"

// Linux 5.14; the headers of older systems do not have it.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

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

// Nothing: the kernel does not say, as of mappings of devices and before Linux 5.14.
std::optional<bool> canBeWritten(std::span<const std::byte> memory) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(memory.data()) + memory.size();
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0) return true;
  return errno == EINVAL || errno == EINTR ? std::nullopt : std::optional(false);
}

// By a pipe: the kernel writes to memory of any kind, and says when it cannot. Nothing without a
// descriptor for it.
std::optional<bool> copyByKernel(std::span<std::byte> into, std::span<const std::byte> from) {
  constexpr std::size_t kPieceBytes = 16384;  // a new pipe takes as much at once
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const OwnedFd out(ends[0]), in(ends[1]);
  while (!from.empty()) {
    const auto piece = from.first(std::min(from.size(), kPieceBytes));
    if (write(in.get(), piece.data(), piece.size()) != static_cast<ssize_t>(piece.size()) ||
        read(out.get(), into.data(), piece.size()) != static_cast<ssize_t>(piece.size()))
      return false;
    from = from.subspan(piece.size());
    into = into.subspan(piece.size());
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
    const std::optional<bool> writable = canBeWritten(into.first(from.size()));
    if (writable == false) return false;
    if (!writable) {
      if (const std::optional<bool> copied = copyByKernel(into, from)) return *copied;
    }
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
