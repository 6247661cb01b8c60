#include "channel_object.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gd2fs_context.h"
#include "memory_object.h"
#include "queue_object.h"
#include "request_object.h"
#include "unlocked.h"

namespace hearth::python {
namespace {

const Gd2fsTypes* types = nullptr;  // of the module, which is never unloaded

struct ChannelObject {
  PyObject_HEAD std::shared_ptr<Gd2fsContext> context;
};

const std::shared_ptr<Gd2fsContext>& contextOf(PyObject* self) {
  return reinterpret_cast<ChannelObject*>(self)->context;
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject*) {
  xfer_gd2fs_options options{};
  if (PyArg_ParseTuple(arguments, "szsIIIzI", &options.cp_address, &options.dp_address,
                       &options.cluster_id, &options.iothread_count, &options.memthread_count,
                       &options.conn_stream_count, &options.log_level, &options.timeout) == 0) {
    return nullptr;
  }
  xfer_gd2fs_ctx* connected = nullptr;
  int error = 0;
  {
    const Unlocked unlocked;
    connected = xfer_gd2fs_connect(&options);
    error = errno;
  }
  errno = error;
  if (connected == nullptr)
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, options.cp_address);
  auto context = std::make_shared<Gd2fsContext>(connected);
  PyObject* const self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == nullptr) return nullptr;
  std::construct_at(&reinterpret_cast<ChannelObject*>(self)->context, std::move(context));
  return self;
}

PyObject* close(PyObject* self, PyObject*) {
  contextOf(self)->close();
  Py_RETURN_NONE;
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  contextOf(self)->close();
  std::destroy_at(&reinterpret_cast<ChannelObject*>(self)->context);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// The arguments that all requests have: (path, ..., description, queue, future).
struct Submission {
  const char* path = nullptr;
  RequestObject* request = nullptr;
};

bool prepare(PyObject* path, std::span<PyObject* const> last, Submission& into) {
  Py_ssize_t pathBytes = 0;
  into.path = PyUnicode_AsUTF8AndSize(path, &pathBytes);
  if (into.path == nullptr) return false;
  if (std::strlen(into.path) != static_cast<std::size_t>(pathBytes)) {
    PyErr_SetString(PyExc_ValueError, "the path has a null character");
    return false;
  }
  std::shared_ptr<EndedRequests> ended = endedRequestsOf(types->queue, last[1]);
  if (!ended) return false;
  into.request = makeRequest(types->request, std::move(ended), last[0], last[2]);
  return into.request != nullptr;
}

// Has `call` submit the request, with a reference of its own. Returns the request, or None when it
// was refused; takes over a reference.
template <class Call>
PyObject* submit(Gd2fsContext& context, RequestObject* request, Call call) {
  auto* const object = reinterpret_cast<PyObject*>(request);
  Py_INCREF(object);
  context.begin(*request);
  if (call() == 0) return object;
  context.revoke(*request);
  Py_DECREF(object);
  Py_DECREF(object);
  Py_RETURN_NONE;
}

using TransferCall = decltype(&xfer_gd2fs_preadv);

PyObject* transfer(TransferCall call, PyObject* self, std::span<PyObject* const> arguments) {
  if (arguments.size() != 7) {
    PyErr_SetString(PyExc_TypeError, "(path, offset, sges, flags, desc, queue, future)");
    return nullptr;
  }
  const unsigned long long offset = PyLong_AsUnsignedLongLong(arguments[1]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const unsigned long flags = PyLong_AsUnsignedLong(arguments[3]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  SgeVector vector;
  if (!gatherSges(arguments[2], vector)) return nullptr;
  Submission submission;
  if (!prepare(arguments[0], arguments.subspan(4), submission)) return nullptr;
  RequestObject* const request = submission.request;
  request->memory = vector.memory.release();
  Gd2fsContext& context = *contextOf(self);
  return submit(context, request, [&]() -> ssize_t {
    constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();
    if (vector.sges.size() > kMost || flags > kMost) return -EINVAL;
    return call(context.handle(), request, submission.path, offset, vector.sges.data(),
                static_cast<std::uint16_t>(vector.sges.size()), static_cast<std::uint16_t>(flags));
  });
}

std::span<PyObject* const> all(PyObject* const* arguments, Py_ssize_t count) {
  return {arguments, static_cast<std::size_t>(count)};
}

PyObject* read(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return transfer(xfer_gd2fs_preadv, self, all(arguments, count));
}

PyObject* write(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  return transfer(xfer_gd2fs_pwritev, self, all(arguments, count));
}

PyObject* stat(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 4) {
    PyErr_SetString(PyExc_TypeError, "(path, desc, queue, future)");
    return nullptr;
  }
  Submission submission;
  if (!prepare(arguments[0], all(arguments, count).subspan(1), submission)) return nullptr;
  RequestObject* const request = submission.request;
  Gd2fsContext& context = *contextOf(self);
  return submit(context, request, [&] {
    return xfer_gd2fs_fstat(context.handle(), request, submission.path, &request->stat);
  });
}

PyObject* list(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  constexpr unsigned long kMost = 65'536;
  if (count != 6) {
    PyErr_SetString(PyExc_TypeError, "(path, after, max, desc, queue, future)");
    return nullptr;
  }
  const char* const after = PyUnicode_AsUTF8AndSize(arguments[1], nullptr);
  if (after == nullptr) return nullptr;
  const unsigned long most = PyLong_AsUnsignedLong(arguments[2]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (most == 0 || most > kMost) {
    PyErr_SetString(PyExc_ValueError, "max is 1 to 65536");
    return nullptr;
  }
  Submission submission;
  const std::span<PyObject* const> given = all(arguments, count);
  if (!prepare(given[0], given.subspan(3), submission)) return nullptr;
  RequestObject* const request = submission.request;
  request->entries.resize(most);
  Gd2fsContext& context = *contextOf(self);
  return submit(context, request, [&] {
    return xfer_gd2fs_list(context.handle(), request, submission.path, after,
                           request->entries.data(), static_cast<std::uint32_t>(most));
  });
}

PyObject* registerFor(PyObject* self, PyObject* arguments) {
  PyObject *lender = nullptr, *length = nullptr;
  int writable = 1;
  if (PyArg_ParseTuple(arguments, "OO|p", &lender, &length, &writable) == 0) return nullptr;
  return registerMemory(types->memory, contextOf(self), lender, length, writable != 0);
}

PyObject* deregister(PyObject* self, PyObject* argument) {
  if (Py_TYPE(argument) != reinterpret_cast<PyTypeObject*>(types->memory)) {
    PyErr_SetString(PyExc_TypeError, "not a pygd2fs.IOMEM");
    return nullptr;
  }
  if (!deregisterMemory(*reinterpret_cast<MemoryObject*>(argument), *contextOf(self)))
    return nullptr;
  Py_RETURN_NONE;
}

PyObject* drain(PyObject* self, PyObject* arguments) {
  PyObject* memory = nullptr;
  int milliseconds = 0;
  if (PyArg_ParseTuple(arguments, "O!i", types->memory, &memory, &milliseconds) == 0)
    return nullptr;
  return drainMemory(*reinterpret_cast<MemoryObject*>(memory), *contextOf(self), milliseconds);
}

PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

}  // namespace

const std::shared_ptr<Gd2fsContext>& contextOfChannel(PyObject* channel) {
  return contextOf(channel);
}

PyObject* makeChannelType(PyObject* module, const Gd2fsTypes& ofModule) {
  types = &ofModule;
  static PyMethodDef methods[] = {
      {"read", fast(read), METH_FASTCALL,
       "read(path, offset, sges, flags, desc, queue, future) -> Request, or None when refused"},
      {"write", fast(write), METH_FASTCALL, "As read()."},
      {"stat", fast(stat), METH_FASTCALL,
       "stat(path, desc, queue, future) -> Request, or None when refused"},
      {"list", fast(list), METH_FASTCALL,
       "list(path, after, max, desc, queue, future) -> Request, or None when refused"},
      {"register", registerFor, METH_VARARGS,
       "register(address or lender, length, writable=True) -> IOMEM"},
      {"deregister", deregister, METH_O, "deregister(iomem)"},
      {"drain", drain, METH_VARARGS,
       "drain(iomem, milliseconds) -> whether nothing touches the memory any more"},
      {"close", close, METH_NOARGS,
       "Ends what is in flight; afterwards every request is in its queue. Idempotent."},
      {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                {Py_tp_methods, methods},
                                {}};
  static PyType_Spec spec = {"pygd2fs._native.Channel", sizeof(ChannelObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace hearth::python
