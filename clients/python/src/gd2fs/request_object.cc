#include "request_object.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>

namespace hearth::python {
namespace {

RequestObject& of(PyObject* self) { return *reinterpret_cast<RequestObject*>(self); }

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  RequestObject& request = of(self);
  Py_XDECREF(request.description);
  Py_XDECREF(request.future);
  Py_XDECREF(request.memory);
  std::destroy_at(&request.entries);
  std::destroy_at(&request.ended);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyObject* getStatus(PyObject* self, PyObject*) { return PyLong_FromLong(of(self).status); }

PyObject* getValue(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(of(self).value);
}

PyObject* isQuiescent(PyObject* self, PyObject*) {
  return PyBool_FromLong(of(self).isQuiescent ? 1 : 0);
}

PyObject* getStat(PyObject* self, PyObject*) {
  const xfer_gd2fs_stat& stat = of(self).stat;
  return Py_BuildValue("KLI", static_cast<unsigned long long>(stat.size),
                       static_cast<long long>(stat.mtime_ns), stat.mode);
}

PyObject* getEntries(PyObject* self, PyObject*) {
  const RequestObject& request = of(self);
  const std::size_t count =
      request.status == 0 ? std::min<std::size_t>(request.value, request.entries.size()) : 0;
  PyObject* const list = PyList_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; list != nullptr && i < count; ++i) {
    const xfer_gd2fs_dirent& entry = request.entries[i];
    PyObject* const item =
        Py_BuildValue("sKI", entry.name, static_cast<unsigned long long>(entry.size), entry.mode);
    if (item == nullptr || PyList_SetItem(list, static_cast<Py_ssize_t>(i), item) != 0) {
      Py_DECREF(list);
      return nullptr;
    }
  }
  return list;
}

}  // namespace

PyObject* makeRequestType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"Status", getStatus, METH_NOARGS, "0, or a status that InspectStatus() takes apart."},
      {"Value", getValue, METH_NOARGS, "Bytes that were read; fewer at the end of the file."},
      {"IsQuiescent", isQuiescent, METH_NOARGS,
       "False: something may go on to write into the memory, which Client.Drain() waits for."},
      {"Entries", getEntries, METH_NOARGS,
       "[(name, size, mode)] of a listing that has ended well."},
      {"Stat", getStat, METH_NOARGS, "(size, mtime_ns, mode) of a stat that has ended well."},
      {}};
  static PyMemberDef members[] = {
      {"desc", T_OBJECT, offsetof(RequestObject, description), READONLY, "The text for logs."}, {}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("One read or write; tells how it ended, once it has.")},
      {}};
  static PyType_Spec spec = {"pygd2fs.Request", sizeof(RequestObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

RequestObject* makeRequest(PyObject* type, std::shared_ptr<EndedRequests> ended,
                           PyObject* description, PyObject* future) {
  auto* const typed = reinterpret_cast<PyTypeObject*>(type);
  PyObject* const self = reinterpret_cast<allocfunc>(PyType_GetSlot(typed, Py_tp_alloc))(typed, 0);
  if (self == nullptr) return nullptr;
  RequestObject& request = of(self);
  std::construct_at(&request.ended, std::move(ended));
  std::construct_at(&request.entries);
  request.isQuiescent = true;
  request.description = Py_NewRef(description);
  request.future = future == Py_None ? nullptr : Py_NewRef(future);
  return &request;
}

}  // namespace hearth::python
