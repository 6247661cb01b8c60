#include "engine/testing/counted_copies.h"

#include <sys/prctl.h>

#include <atomic>
#include <cstddef>

namespace hearth::testing_support {
namespace {

std::atomic<std::uint64_t> copied{0};

// 0: not asked yet.
thread_local int ofEngine = 0;

// Uses no call that copies.
bool isEngine() {
  if (ofEngine == 0) {
    char name[16] = {};
    prctl(PR_GET_NAME, name);
    constexpr char kPrefix[] = {'h', 'e', 'a', 'r', 't', 'h', '-'};
    ofEngine = 1;
    for (std::size_t at = 0; at < sizeof kPrefix; ++at) {
      if (name[at] != kPrefix[at]) ofEngine = -1;
    }
  }
  return ofEngine == 1;
}

void count(std::size_t bytes) {
  if (bytes >= kCountedBytes && isEngine()) copied.fetch_add(bytes, std::memory_order_relaxed);
}

// Loops that the compiler may not turn into the calls that they stand for.
void forward(char* to, const char* from, std::size_t bytes) {
#ifdef __x86_64__
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  for (std::size_t at = 0; at < bytes; ++at) static_cast<volatile char*>(to)[at] = from[at];
#endif
}

void backward(char* to, const char* from, std::size_t bytes) {
  for (std::size_t at = bytes; at-- > 0;) static_cast<volatile char*>(to)[at] = from[at];
}

}  // namespace

std::uint64_t copiedBytes() { return copied.load(std::memory_order_relaxed); }

}  // namespace hearth::testing_support

using hearth::testing_support::backward;
using hearth::testing_support::count;
using hearth::testing_support::forward;

extern "C" {

void* memcpy(void* to, const void* from, std::size_t bytes) {
  count(bytes);
  forward(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  return to;
}

void* memmove(void* to, const void* from, std::size_t bytes) {
  count(bytes);
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  if (target <= source || target >= source + bytes) {
    forward(target, source, bytes);
  } else {
    backward(target, source, bytes);
  }
  return to;
}

}  // extern "C"
