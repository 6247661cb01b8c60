// Result<T> and Status: how every fallible function of the engine answers. No exception leaves the
// engine; std::bad_alloc ends the process. Values are thread-compatible.
#pragma once

#include <cassert>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/generated/error_code.h"

namespace hearth {

// A failure. `message` is a sentence for people: the failed action, its cause and, if known, the
// next step. It never contains a secret (URL query strings and headers are secrets).
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // The same error with "context: " before its message.
  [[nodiscard]] Error within(std::string_view context) const {
    return {code, std::string(context) + ": " + message};
  }
};

// Maps errno to a code: ENOENT to kNotFound, EACCES/EPERM to kPermissionDenied, ENOSPC/EDQUOT to
// kOutOfSpace, EEXIST to kAlreadyExists, connection errors to kUnavailable, ..., else kIoError.
// `what` names the call and its object ("open /var/cache/x").
[[nodiscard]] Error errnoError(int error, std::string_view what);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Only when ok().
  T& value() & {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    assert(ok());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only when !ok().
  const Error& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }
  ErrorCode code() const { return ok() ? ErrorCode::kOk : error().code; }

 private:
  std::variant<T, Error> state_;
};

// A Result without a value.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}

  bool ok() const { return error_.code == ErrorCode::kOk; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return error_; }
  ErrorCode code() const { return error_.code; }

 private:
  Error error_{ErrorCode::kOk, {}};
};

}  // namespace hearth
