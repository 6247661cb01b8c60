// FUSE_INIT: what kernel and session agree on, and how that is kept for the next agent, which is
// not asked again. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fuse/fuse_abi.h"

namespace hearth {

struct FuseNegotiated {
  std::uint32_t minor = 0;  // of the kernel's protocol 7
  std::uint64_t flags = 0;  // that both sides have

  [[nodiscard]] bool passthrough() const { return (flags & kFusePassthrough) != 0; }
  [[nodiscard]] bool resend() const { return (flags & kFuseHasResend) != 0; }
  // OPENDIR may be answered with ENOSYS: folders need no handles and are cached.
  [[nodiscard]] bool openlessDirectories() const { return (flags & FUSE_NO_OPENDIR_SUPPORT) != 0; }

  bool operator==(const FuseNegotiated&) const = default;
};

struct FuseInitAnswer {
  FuseInitOut out{};
  FuseNegotiated negotiated;
};

// Immutable data: everything that lets the kernel cache or run in parallel is welcome, and nothing
// that is about writing. FUSE_ALLOW_IDMAP lets container runtimes map ids for pods with a user
// namespace; the kernel demands default_permissions for it, which the holder mounts with. Not
// FUSE_ASYNC_DIO: with it a reader by O_DIRECT waits where no signal reaches it, not even SIGKILL.
inline constexpr std::uint64_t kReadOnlyFlags =
    FUSE_ASYNC_READ | FUSE_EXPORT_SUPPORT | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
    FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_NO_OPENDIR_SUPPORT |
    FUSE_HAS_IOCTL_DIR | FUSE_INIT_EXT | FUSE_ABORT_ERROR | kFuseHasResend | kFuseAllowIdmap;
// A tree that changes, also on other nodes. FUSE_HANDLE_KILLPRIV_V2: without it every write(2) asks
// for security.capability. Not FUSE_WRITEBACK_CACHE, which forbids passthrough.
inline constexpr std::uint64_t kWritableFlags =
    FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO |
    FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_CACHE_SYMLINKS | FUSE_HANDLE_KILLPRIV_V2 |
    FUSE_INIT_EXT | FUSE_ABORT_ERROR | kFusePassthrough | kFuseHasResend;

// `wanted`: flags of the protocol, as above. kUnsupported for kernels before protocol 7.31 (Linux
// 5.4).
[[nodiscard]] Result<FuseInitAnswer> negotiate(const fuse_init_in& in, std::uint64_t wanted);

[[nodiscard]] std::string encodeNegotiated(const FuseNegotiated& negotiated);
// Nothing for text that encodeNegotiated() does not make, the empty one included.
[[nodiscard]] std::optional<FuseNegotiated> decodeNegotiated(std::string_view state);

}  // namespace hearth
