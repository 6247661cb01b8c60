// The sanitizer of the build, for tests that do less work under one. clang defines none of gcc's
// __SANITIZE_*__ macros.
#pragma once

namespace hearth {

inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
inline constexpr bool kSanitized = kThreadSanitizer || kAddressSanitizer;

}  // namespace hearth
