// Fields of JavaScript objects that have the names and values of members of the engine's
// structures.
#pragma once

#include <napi.h>

#include <cstdint>
#include <type_traits>

namespace hearth::convert {

// Counters of 64 bits become BigInts, everything else what Napi::Value::From makes of it.
template <class T>
[[nodiscard]] Napi::Value valueOf(Napi::Env env, const T& from) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return Napi::BigInt::New(env, from);
  } else {
    return Napi::Value::From(env, from);
  }
}

// An array of what `convert(row)` makes of each of `rows`.
template <class Rows, class Convert>
[[nodiscard]] Napi::Array arrayOf(Napi::Env env, const Rows& rows, Convert convert) {
  Napi::Array array = Napi::Array::New(env);
  for (const auto& row : rows) array.Set(array.Length(), convert(row));
  return array;
}

}  // namespace hearth::convert

// SET_FIELDS(object, from, bytes, files); sets object.bytes to from.bytes and object.files to
// from.files, so that the names of counters stand once. At most 64 names: each HEARTH_EXPAND lets
// the preprocessor expand the macro that it has just left once more.
#define SET_FIELDS(object, from, ...) HEARTH_EXPAND(HEARTH_SET_FIELD(object, from, __VA_ARGS__))
#define HEARTH_SET_FIELD(object, from, name, ...)                              \
  (object).Set(#name, ::hearth::convert::valueOf((object).Env(), (from).name)) \
      __VA_OPT__(; HEARTH_SET_NEXT HEARTH_PARENTHESES(object, from, __VA_ARGS__))
#define HEARTH_SET_NEXT() HEARTH_SET_FIELD
#define HEARTH_PARENTHESES ()
#define HEARTH_EXPAND(...) \
  HEARTH_EXPAND_16(HEARTH_EXPAND_16(HEARTH_EXPAND_16(HEARTH_EXPAND_16(__VA_ARGS__))))
#define HEARTH_EXPAND_16(...) \
  HEARTH_EXPAND_4(HEARTH_EXPAND_4(HEARTH_EXPAND_4(HEARTH_EXPAND_4(__VA_ARGS__))))
#define HEARTH_EXPAND_4(...) \
  HEARTH_EXPAND_1(HEARTH_EXPAND_1(HEARTH_EXPAND_1(HEARTH_EXPAND_1(__VA_ARGS__))))
#define HEARTH_EXPAND_1(...) __VA_ARGS__
