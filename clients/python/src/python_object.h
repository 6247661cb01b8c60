// CPython's interface, the stable one (PEP 384) from 3.11 on, and owned objects.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <utility>

namespace hearth::python {

// One strong reference, released by the destructor with the GIL held. Null: a Python exception is
// set, or there is none.
class Object {
 public:
  Object() = default;
  // Takes the reference over.
  explicit Object(PyObject* object) : object_(object) {}
  Object(Object&& other) noexcept : object_(other.release()) {}
  Object& operator=(Object&& other) noexcept {
    if (this != &other) Py_XDECREF(std::exchange(object_, other.release()));
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }

  [[nodiscard]] PyObject* get() const { return object_; }
  [[nodiscard]] PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace hearth::python
