// The extension module pygd2fs._native: a thin layer over libgd2fs. Its threads never need the GIL.
#include "channel_object.h"
#include "kv_object.h"
#include "memory_object.h"
#include "queue_object.h"
#include "request_object.h"
#include "unlocked.h"

namespace hearth::python {
namespace {

Gd2fsTypes& typesOf(PyObject* module) {
  return *static_cast<Gd2fsTypes*>(PyModule_GetState(module));
}

bool add(PyObject* module, const char* name, PyObject* type) {
  return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
}

PyObject* endWaits(PyObject*, PyObject*) {
  Unlocked::endAll();
  Py_RETURN_NONE;
}

int initialize(PyObject* module) {
  Gd2fsTypes& types = typesOf(module);
  types.request = makeRequestType(module);
  types.queue = makeQueueType(module);
  types.memory = makeMemoryType(module);
  types.sge = makeSgeType(module, types.memory);
  const Object channel(makeChannelType(module, types));
  const Object kvSpace(makeKvSpaceType(module, channel.get()));
  const bool isComplete = add(module, "Request", types.request) &&
                          add(module, "Queue", types.queue) && add(module, "IOMEM", types.memory) &&
                          add(module, "SGE", types.sge) && add(module, "Channel", channel.get()) &&
                          add(module, "KvSpace", kvSpace.get());
  return isComplete ? 0 : -1;
}

int visitModule(PyObject* module, visitproc visit, void* arg) {
  for (PyObject* type : {typesOf(module).request, typesOf(module).queue, typesOf(module).memory,
                         typesOf(module).sge}) {
    Py_VISIT(type);
  }
  return 0;
}

PyMethodDef methods[] = {{"end_waits", endWaits, METH_NOARGS,
                          "Returns when no thread waits any more. For the end of the interpreter."},
                         {}};

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(initialize)}, {}};

// Never cleared: the interpreter destroys modules while objects of these types are still alive.
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", nullptr,
                          sizeof(Gd2fsTypes),    methods,   slots,
                          visitModule,           nullptr,   nullptr};

}  // namespace
}  // namespace hearth::python

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&hearth::python::definition); }
