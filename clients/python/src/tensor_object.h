// hearth._native.Tensor: one tensor in its final memory, which lives for as long as a Tensor, a
// buffer or a DLPack capsule of it.
#pragma once

#include "loader/model_loader.h"
#include "python_object.h"

namespace hearth::python {

// The type, a new reference; null with a Python exception set.
[[nodiscard]] PyObject* makeTensorType(PyObject* module);

// `type` is the answer of makeTensorType(). `device` is -1 for host memory, else the GPU's index.
[[nodiscard]] Object makeTensor(PyObject* type, const LoadedTensor& tensor, int device);

}  // namespace hearth::python
