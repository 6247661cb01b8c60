// The static C++ runtime of Debian 12 calls arc4random(3), which glibc has since 2.36: with a
// function of its own the wheel serves systems that have 2.35, such as Ubuntu 22.04.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  // So few bytes come at once; the call fails only where a sandbox forbids it.
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
