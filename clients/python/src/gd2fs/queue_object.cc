#include "queue_object.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "request_object.h"
#include "unlocked.h"

namespace hearth::python {
namespace {

using std::chrono::steady_clock;

struct QueueObject {
  PyObject_HEAD std::shared_ptr<EndedRequests> ended;
};

EndedRequests& of(PyObject* self) { return *reinterpret_cast<QueueObject*>(self)->ended; }

// With the GIL. Requests that have been taken need their queue no more.
std::vector<RequestObject*> takeFrom(PyObject* self) {
  std::vector<RequestObject*> requests = of(self).take();
  for (RequestObject* request : requests) request->ended.reset();
  return requests;
}

void discardFrom(PyObject* self) {
  for (RequestObject* request : takeFrom(self)) Py_DECREF(reinterpret_cast<PyObject*>(request));
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
  auto ended = std::make_shared<EndedRequests>();
  if (!ended->isOpen()) return PyErr_SetFromErrno(PyExc_OSError);
  PyObject* const self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == nullptr) return nullptr;
  std::construct_at(&reinterpret_cast<QueueObject*>(self)->ended, std::move(ended));
  return self;
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  discardFrom(self);
  std::destroy_at(&reinterpret_cast<QueueObject*>(self)->ended);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// Gives each reference to the list, or releases it after an error.
PyObject* listOf(const std::vector<RequestObject*>& requests) {
  Object list(PyList_New(static_cast<Py_ssize_t>(requests.size())));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto* const request = reinterpret_cast<PyObject*>(requests[i]);
    if (!list) {
      Py_DECREF(request);
    } else {
      PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), request);
    }
  }
  return list.release();
}

PyObject* waitFor(PyObject* self, PyObject* argument) {
  const long long milliseconds = PyLong_AsLongLong(argument);
  if (milliseconds == -1 && PyErr_Occurred() != nullptr) return nullptr;
  // A day at a time, which spares the sum an overflow.
  constexpr long long kMost = 86'400'000;
  const auto begun = steady_clock::now();
  while (true) {
    const std::vector<RequestObject*> ended = takeFrom(self);
    const auto passed =
        std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begun).count();
    if (!ended.empty() || of(self).isOver() || (milliseconds >= 0 && passed >= milliseconds)) {
      return listOf(ended);
    }
    std::optional<std::chrono::milliseconds> left;
    if (milliseconds >= 0) left.emplace(std::min(milliseconds - passed, kMost));
    bool hasSlept = false;
    {
      const Unlocked unlocked;
      hasSlept = of(self).await(left);
    }
    if (!hasSlept && PyErr_CheckSignals() != 0) return nullptr;
  }
}

// Ends the future of a request, unless it was cancelled. False with a Python exception set.
bool resolve(RequestObject& request) {
  // A future has its request as the result, so the request forgets the future.
  const Object future(std::exchange(request.future, nullptr));
  if (!future) return true;
  const Object isDone(PyObject_CallMethod(future.get(), "done", nullptr));
  if (!isDone) return false;
  if (PyObject_IsTrue(isDone.get()) != 0) return true;
  return static_cast<bool>(Object(
      PyObject_CallMethod(future.get(), "set_result", "O", reinterpret_cast<PyObject*>(&request))));
}

PyObject* resolveAll(PyObject* self, PyObject*) {
  for (RequestObject* each : takeFrom(self)) {
    const Object request(reinterpret_cast<PyObject*>(each));
    // The exception of one future must not keep the others waiting.
    if (!resolve(*each)) PyErr_WriteUnraisable(request.get());
  }
  Py_RETURN_NONE;
}

PyObject* discard(PyObject* self, PyObject*) {
  discardFrom(self);
  Py_RETURN_NONE;
}

PyObject* isIdle(PyObject* self, PyObject*) { return PyBool_FromLong(of(self).isIdle() ? 1 : 0); }

PyObject* fileno(PyObject* self, PyObject*) { return PyLong_FromLong(of(self).descriptor()); }

PyObject* close(PyObject* self, PyObject*) {
  of(self).close();
  Py_RETURN_NONE;
}

}  // namespace

PyObject* makeQueueType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"wait", waitFor, METH_O,
       "wait(milliseconds) -> requests that have ended; waits for the first, for ever with -1"},
      {"resolve", resolveAll, METH_NOARGS, "Gives requests that have ended to their futures."},
      {"discard", discard, METH_NOARGS, "Forgets requests that have ended."},
      {"is_idle", isIdle, METH_NOARGS, "Whether no request is in flight or waits to be taken."},
      {"fileno", fileno, METH_NOARGS, "A descriptor that is readable when requests have ended."},
      {"close", close, METH_NOARGS, "Ends all waits, these and later ones."},
      {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                                {Py_tp_methods, methods},
                                {}};
  static PyType_Spec spec = {"pygd2fs._native.Queue", sizeof(QueueObject), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

std::shared_ptr<EndedRequests> endedRequestsOf(PyObject* type, PyObject* object) {
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(type)) {
    PyErr_SetString(PyExc_TypeError, "not a pygd2fs._native.Queue");
    return nullptr;
  }
  return reinterpret_cast<QueueObject*>(object)->ended;
}

}  // namespace hearth::python
