// pygd2fs._native.Queue: where requests of one event loop, or of Client.Wait(), go when they end.
#pragma once

#include <memory>

#include "ended_requests.h"
#include "python_object.h"

namespace hearth::python {

// The type, a new reference; null with a Python exception set.
[[nodiscard]] PyObject* makeQueueType(PyObject* module);

// Of a Queue; null with a TypeError set for anything else.
[[nodiscard]] std::shared_ptr<EndedRequests> endedRequestsOf(PyObject* type, PyObject* object);

}  // namespace hearth::python
