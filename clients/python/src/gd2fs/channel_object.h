// pygd2fs._native.Channel: one context of libgd2fs and the thread that takes its completions.
#pragma once

#include <memory>

#include "gd2fs_context.h"
#include "python_object.h"

namespace hearth::python {

// Types whose objects a Channel makes or takes; strong references of the module.
struct Gd2fsTypes {
  PyObject* request = nullptr;
  PyObject* queue = nullptr;
  PyObject* memory = nullptr;
  PyObject* sge = nullptr;
};

// The type, a new reference; null with a Python exception set. `types` lives as long as the type.
[[nodiscard]] PyObject* makeChannelType(PyObject* module, const Gd2fsTypes& types);

// Of an object of that type.
[[nodiscard]] const std::shared_ptr<Gd2fsContext>& contextOfChannel(PyObject* channel);

}  // namespace hearth::python
