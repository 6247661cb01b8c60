// What keeps C++ exceptions inside the library: the C standard library's and the system's, as when
// a thread cannot be started or memory is missing. Programs in C cannot catch them.
#pragma once

#include <cerrno>
#include <new>
#include <system_error>

namespace hearth::gd2fs {

// The result of `call`, a number that is negative on failure; -EAGAIN when the system starts no
// more threads, -ENOMEM without memory.
template <class Call>
auto orNegativeErrno(Call call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::system_error& error) {
    const bool isErrno = error.code().category() == std::generic_category() ||
                         error.code().category() == std::system_category();
    return isErrno && error.code().value() > 0 ? -error.code().value() : -EIO;
  } catch (...) {
    return -EIO;
  }
}

// The same for a call that returns a pointer: null, and errno says why.
template <class Pointer, class Call>
Pointer orNull(Call call) noexcept {
  Pointer result = nullptr;
  const int failed = orNegativeErrno([&] {
    result = call();
    return 0;
  });
  if (failed != 0) errno = -failed;
  return result;
}

}  // namespace hearth::gd2fs
