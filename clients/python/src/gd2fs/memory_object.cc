#include "memory_object.h"

#include <structmember.h>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace hearth::python {
namespace {

// Borrowed from the module, which is never unloaded.
PyObject* sgeMemoryType = nullptr;
PyObject* sgeType = nullptr;

MemoryObject& memoryOf(PyObject* self) { return *reinterpret_cast<MemoryObject*>(self); }
SgeObject& sgeOf(PyObject* self) { return *reinterpret_cast<SgeObject*>(self); }

PyObject* allocate(PyTypeObject* type) {
  return reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void release(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// Requests in flight hold the memory. The driver of a GPU may still copy for one that failed: then
// what is lent stays so for as long as the process lives.
void destroyMemory(PyObject* self) {
  MemoryObject& memory = memoryOf(self);
  if (memory.handle != nullptr) {
    const bool isInUse = memory.context->drain(memory.handle, 0) == ETIMEDOUT;
    if (isInUse) static_cast<void>(memory.lent.release());
    xfer_gd2fs_dereg_iomem(memory.context->handle(), memory.handle);
  }
  std::destroy_at(&memory.lent);
  std::destroy_at(&memory.context);
  release(self);
}

PyObject* getAddress(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(memoryOf(self).address);
}

PyObject* getLength(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(memoryOf(self).length);
}

void destroySge(PyObject* self) {
  Py_XDECREF(sgeOf(self).memory);
  release(self);
}

PyObject* createSge(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"addr", "len", "iomem", nullptr};
  PyObject *address = nullptr, *length = nullptr, *memory = nullptr;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "OOO!", const_cast<char**>(names), &address,
                                  &length, sgeMemoryType, &memory) == 0) {
    return nullptr;
  }
  const unsigned long long begin = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const unsigned long long bytes = PyLong_AsUnsignedLongLong(length);
  if (PyErr_Occurred() != nullptr) return nullptr;
  PyObject* const self = allocate(type);
  if (self == nullptr) return nullptr;
  sgeOf(self).address = begin;
  sgeOf(self).length = bytes;
  sgeOf(self).memory = Py_NewRef(memory);
  return self;
}

bool isSge(PyObject* object) {
  if (Py_TYPE(object) == reinterpret_cast<PyTypeObject*>(sgeType)) return true;
  const int is = PyObject_IsInstance(object, sgeType);
  if (is == 0) PyErr_SetString(PyExc_TypeError, "sges holds something that is no pygd2fs.SGE");
  return is > 0;
}

bool raiseErrno(int error) {
  errno = error;
  PyErr_SetFromErrno(PyExc_OSError);
  return false;
}

// The bytes that `length` asks for, None meaning all that is lent.
bool checkLength(MemoryObject& memory, PyObject* length) {
  if (length == Py_None && memory.lent) return true;
  const unsigned long long bytes = PyLong_AsUnsignedLongLong(length);
  if (PyErr_Occurred() != nullptr) return false;
  if (memory.lent && bytes > memory.length) {
    PyErr_SetString(PyExc_ValueError, "the memory is shorter than the length");
    return false;
  }
  memory.length = bytes;
  return true;
}

}  // namespace

PyObject* makeMemoryType(PyObject* module) {
  static PyGetSetDef properties[] = {
      {"addr", getAddress, nullptr, "The first byte's address.", nullptr},
      {"length", getLength, nullptr, "Bytes.", nullptr},
      {}};
  static PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroyMemory)},
                                {Py_tp_getset, properties},
                                {Py_tp_doc, const_cast<char*>("Registered memory of one client.")},
                                {}};
  static PyType_Spec spec = {"pygd2fs.IOMEM", sizeof(MemoryObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

PyObject* makeSgeType(PyObject* module, PyObject* memoryType) {
  sgeMemoryType = memoryType;
  static PyMemberDef members[] = {
      {"addr", T_ULONGLONG, offsetof(SgeObject, address), READONLY, "The first byte's address."},
      {"length", T_ULONGLONG, offsetof(SgeObject, length), READONLY, "Bytes."},
      {"iomem", T_OBJECT_EX, offsetof(SgeObject, memory), READONLY, "The registered memory."},
      {}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(createSge)},
      {Py_tp_dealloc, reinterpret_cast<void*>(destroySge)},
      {Py_tp_members, members},
      {Py_tp_doc, const_cast<char*>("SGE(addr, len, iomem): a part of registered memory.")},
      {}};
  static PyType_Spec spec = {"pygd2fs.SGE", sizeof(SgeObject), 0, Py_TPFLAGS_DEFAULT, slots};
  sgeType = PyType_FromModuleAndSpec(module, &spec, nullptr);
  return sgeType;
}

bool gatherSges(PyObject* sequence, SgeVector& into) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) return false;
  into.sges.reserve(static_cast<std::size_t>(count));
  if (count > 1) into.memory = Object(PyTuple_New(count));
  if (count > 1 && !into.memory) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Object item(PySequence_GetItem(sequence, i));
    if (!item || !isSge(item.get())) return false;
    const SgeObject& sge = sgeOf(item.get());
    into.sges.push_back({reinterpret_cast<void*>(sge.address), sge.length,
                         reinterpret_cast<MemoryObject*>(sge.memory)->handle});
    if (count == 1) {
      into.memory = Object(Py_NewRef(sge.memory));
    } else if (PyTuple_SetItem(into.memory.get(), i, Py_NewRef(sge.memory)) != 0) {
      return false;
    }
  }
  return true;
}

PyObject* registerMemory(PyObject* type, const std::shared_ptr<Gd2fsContext>& context,
                         PyObject* lender, PyObject* length, bool writable) {
  Object self(allocate(reinterpret_cast<PyTypeObject*>(type)));
  if (!self) return nullptr;
  MemoryObject& memory = memoryOf(self.get());
  std::construct_at(&memory.context, context);
  std::construct_at(&memory.lent);
  if (PyLong_Check(lender) != 0) {
    memory.address = PyLong_AsUnsignedLongLong(lender);
    if (PyErr_Occurred() != nullptr) return nullptr;
  } else {
    memory.lent = LentMemory::of(lender, writable);
    if (!memory.lent) return nullptr;
    memory.address = reinterpret_cast<std::uintptr_t>(memory.lent->bytes().data());
    memory.length = memory.lent->bytes().size();
  }
  if (!checkLength(memory, length)) return nullptr;
  memory.handle = xfer_gd2fs_reg_iomem(context->handle(), reinterpret_cast<void*>(memory.address),
                                       memory.length, nullptr);
  if (memory.handle == nullptr) return PyErr_SetFromErrno(PyExc_OSError);
  return self.release();
}

PyObject* drainMemory(const MemoryObject& memory, Gd2fsContext& context, int milliseconds) {
  const int error = memory.handle == nullptr ? EINVAL : context.drain(memory.handle, milliseconds);
  if (error == 0) Py_RETURN_TRUE;
  if (error == ETIMEDOUT) Py_RETURN_FALSE;
  raiseErrno(error);
  return nullptr;
}

bool deregisterMemory(MemoryObject& memory, Gd2fsContext& context) {
  if (memory.handle == nullptr) return raiseErrno(EINVAL);
  const int error = context.deregister(memory.handle);
  if (error != 0) return raiseErrno(error);
  memory.handle = nullptr;
  memory.lent.reset();
  return true;
}

}  // namespace hearth::python
