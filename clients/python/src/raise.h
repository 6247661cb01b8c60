// Errors of the engine as Python exceptions.
#pragma once

#include "base/result.h"
#include "python_object.h"

namespace hearth::python {

// A new str; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] inline Object textOf(std::string_view text) {
  return Object(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

// Sets an exception of `type`, which is HearthError, with its code; returns null.
inline PyObject* raiseAs(PyObject* type, const Error& error) {
  const Object message = textOf(error.message);
  const Object code = textOf(errorName(error.code));
  if (!message || !code) return nullptr;
  const Object exception(PyObject_CallFunctionObjArgs(type, message.get(), nullptr));
  if (!exception || PyObject_SetAttrString(exception.get(), "code", code.get()) != 0) {
    return nullptr;
  }
  PyErr_SetObject(type, exception.get());
  return nullptr;
}

}  // namespace hearth::python
