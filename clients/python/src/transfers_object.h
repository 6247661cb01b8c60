// hearth._native.Transfers: native/blocks for Python.
#pragma once

#include "python_object.h"

namespace hearth::python {

// The type, a new reference; null with a Python exception set. `error` is HearthError and must
// outlive the type.
[[nodiscard]] PyObject* makeTransfersType(PyObject* module, PyObject* error);

}  // namespace hearth::python
