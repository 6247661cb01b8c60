// pygd2fs._native.KvSpace: a key space of libgd2fs (xfer/hearth_kv.h).
#pragma once

#include "python_object.h"

namespace hearth::python {

// The type, a new reference; null with a Python exception set. `channelType` lives as long as the
// answer.
[[nodiscard]] PyObject* makeKvSpaceType(PyObject* module, PyObject* channelType);

}  // namespace hearth::python
