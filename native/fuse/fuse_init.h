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

// kUnsupported for kernels before protocol 7.31 (Linux 5.4).
[[nodiscard]] Result<FuseInitAnswer> negotiate(const fuse_init_in& in, bool wantPassthrough);

[[nodiscard]] std::string encodeNegotiated(const FuseNegotiated& negotiated);
// Nothing for text that encodeNegotiated() does not make, the empty one included.
[[nodiscard]] std::optional<FuseNegotiated> decodeNegotiated(std::string_view state);

}  // namespace hearth
