#include "kv_object.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "channel_object.h"
#include "client/include/xfer/hearth_kv.h"
#include "memory_object.h"
#include "unlocked.h"

namespace hearth::python {
namespace {

PyObject* kvChannelType = nullptr;  // of the module, which is never unloaded

// One batch, until its memory is at rest.
struct KvPending {
  std::vector<std::string> keys;
  std::vector<SgeVector> memory;
  std::vector<hearth_kv_item> items;
  Object owner;  // comes back when the batch has ended
};

// Used with the GIL. While a thread waits without it, in take() or drain(), nobody closes the
// space.
struct KvSpaceState {
  std::shared_ptr<Gd2fsContext> context;
  hearth_kv* kv = nullptr;  // null once closed
  std::unordered_map<const void*, std::unique_ptr<KvPending>> pending;
  std::vector<std::unique_ptr<KvPending>> restless;  // that have ended and are not at rest
};

struct KvSpaceObject {
  PyObject_HEAD std::unique_ptr<KvSpaceState> state;
};

KvSpaceState& kvOf(PyObject* self) { return *reinterpret_cast<KvSpaceObject*>(self)->state; }

PyObject* kvFailed(int error) {
  errno = error;
  return PyErr_SetFromErrno(PyExc_OSError);
}

void closeSpace(KvSpaceState& state) {
  hearth_kv* const kv = std::exchange(state.kv, nullptr);
  if (kv == nullptr) return;
  {
    const Unlocked unlocked;
    hearth_kv_close(kv);
  }
  state.pending.clear();
  state.restless.clear();
}

PyObject* createSpace(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* channel = nullptr;
  hearth_kv_space space{};
  space.size = sizeof space;
  Py_ssize_t fingerprint = 0, salt = 0;
  const char *fingerprintBytes = nullptr, *saltBytes = nullptr;
  if (PyArg_ParseTuple(arguments, "O!sy#y#", kvChannelType, &channel, &space.volume,
                       &fingerprintBytes, &fingerprint, &saltBytes, &salt) == 0)
    return nullptr;
  space.fingerprint = fingerprintBytes;
  space.fingerprint_bytes = static_cast<std::size_t>(fingerprint);
  space.salt = saltBytes;
  space.salt_bytes = static_cast<std::size_t>(salt);
  auto state = std::make_unique<KvSpaceState>();
  state->context = contextOfChannel(channel);
  state->kv = hearth_kv_open(state->context->handle(), &space);
  if (state->kv == nullptr) return PyErr_SetFromErrno(PyExc_OSError);
  PyObject* const self = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
  if (self == nullptr) {
    closeSpace(*state);
    return nullptr;
  }
  std::construct_at(&reinterpret_cast<KvSpaceObject*>(self)->state, std::move(state));
  return self;
}

void destroySpace(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  closeSpace(kvOf(self));
  std::destroy_at(&reinterpret_cast<KvSpaceObject*>(self)->state);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// False with a Python exception set. `memory` is None where the call moves no values.
bool gatherItems(PyObject* keys, PyObject* memory, KvPending& into) {
  const Py_ssize_t count = PySequence_Size(keys);
  if (count < 0) return false;
  const bool moves = memory != Py_None;
  if (moves && PySequence_Size(memory) != count) {
    if (PyErr_Occurred() == nullptr)
      PyErr_SetString(PyExc_ValueError, "there are not as many values as keys");
    return false;
  }
  into.keys.resize(static_cast<std::size_t>(count));
  into.memory.resize(moves ? into.keys.size() : 0);
  into.items.resize(into.keys.size());
  for (std::size_t i = 0; i < into.keys.size(); ++i) {
    const auto at = static_cast<Py_ssize_t>(i);
    const Object key(PySequence_GetItem(keys, at));
    char* bytes = nullptr;
    Py_ssize_t length = 0;
    if (!key || PyBytes_AsStringAndSize(key.get(), &bytes, &length) != 0) return false;
    into.keys[i].assign(bytes, static_cast<std::size_t>(length));
    hearth_kv_item& item = into.items[i];
    item.size = sizeof item;
    item.key = into.keys[i].data();
    item.key_bytes = into.keys[i].size();
    if (!moves) continue;
    const Object sges(PySequence_GetItem(memory, at));
    if (!sges || !gatherSges(sges.get(), into.memory[i])) return false;
    item.sges = into.memory[i].sges.data();
    item.sge_count = into.memory[i].sges.size();
  }
  return true;
}

PyObject* submitBatch(PyObject* self, PyObject* arguments) {
  static constexpr std::array kCalls = {hearth_kv_put, hearth_kv_get, hearth_kv_exists,
                                        hearth_kv_prefix, hearth_kv_delete};
  unsigned call = 0, timeout = 0;
  PyObject *keys = nullptr, *memory = nullptr, *owner = nullptr;
  if (PyArg_ParseTuple(arguments, "IOOIO", &call, &keys, &memory, &timeout, &owner) == 0)
    return nullptr;
  KvSpaceState& state = kvOf(self);
  if (state.kv == nullptr) return kvFailed(EBADF);
  if (call >= kCalls.size()) return kvFailed(EINVAL);
  auto pending = std::make_unique<KvPending>();
  if (!gatherItems(keys, memory, *pending)) return nullptr;
  pending->owner = Object(Py_NewRef(owner));
  hearth_kv_batch batch{};
  batch.size = sizeof batch;
  batch.id = pending.get();
  batch.items = pending->items.data();
  batch.count = pending->items.size();
  batch.timeout_ms = timeout;
  PyObject* const id = PyLong_FromVoidPtr(batch.id);
  if (id == nullptr) return nullptr;
  const int refused = kCalls[call](state.kv, &batch);
  if (refused != 0) {
    Py_DECREF(id);
    return kvFailed(-refused);
  }
  // Completions are taken with the GIL held, so none of this batch has been.
  state.pending.emplace(batch.id, std::move(pending));
  return id;
}

// (owner, value, status, at rest, statuses, sizes); null with a Python exception set.
PyObject* describeEnded(const KvPending& pending, const hearth_kv_completion& done) {
  const auto count = static_cast<Py_ssize_t>(pending.items.size());
  Object statuses(PyList_New(count)), sizes(PyList_New(count));
  if (!statuses || !sizes) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const hearth_kv_item& item = pending.items[static_cast<std::size_t>(i)];
    PyObject* const status = PyLong_FromLong(item.status);
    PyObject* const size = PyLong_FromUnsignedLongLong(item.value_bytes);
    if (status != nullptr) PyList_SetItem(statuses.get(), i, status);
    if (size != nullptr) PyList_SetItem(sizes.get(), i, size);
    if (status == nullptr || size == nullptr) return nullptr;
  }
  const bool atRest = (done.flags & HEARTH_KV_NOT_AT_REST) == 0;
  return Py_BuildValue("OKiNNN", pending.owner.get(), static_cast<unsigned long long>(done.value),
                       done.status, PyBool_FromLong(atRest ? 1 : 0), statuses.release(),
                       sizes.release());
}

// Polls the descriptor without the GIL; true when it is readable.
bool awaitCompletions(KvSpaceState& state, int milliseconds) {
  pollfd polled{.fd = hearth_kv_event_fd(state.kv), .events = POLLIN, .revents = 0};
  const Unlocked unlocked;
  return poll(&polled, 1, milliseconds) > 0;
}

PyObject* takeEnded(PyObject* self, PyObject* argument) {
  const int milliseconds = static_cast<int>(PyLong_AsLong(argument));
  if (PyErr_Occurred() != nullptr) return nullptr;
  KvSpaceState& state = kvOf(self);
  if (state.kv == nullptr) return PyList_New(0);
  if (!state.restless.empty() && hearth_kv_drain(state.kv, 0) == 0) state.restless.clear();
  if (milliseconds > 0 && !awaitCompletions(state, milliseconds)) {
    if (PyErr_CheckSignals() != 0) return nullptr;
  }
  Object list(PyList_New(0));
  std::array<hearth_kv_completion, 64> completions{};
  completions[0].size = sizeof completions[0];
  int count = 0;
  while (list && state.kv != nullptr &&
         (count = hearth_kv_poll(state.kv, completions.data(), completions.size())) > 0) {
    for (int i = 0; i < count && list; ++i) {
      const hearth_kv_completion& done = completions[static_cast<std::size_t>(i)];
      const auto found = state.pending.find(done.id);
      std::unique_ptr<KvPending> pending = std::move(found->second);
      state.pending.erase(found);
      const Object ended(describeEnded(*pending, done));
      if (!ended || PyList_Append(list.get(), ended.get()) != 0) list = Object();
      if ((done.flags & HEARTH_KV_NOT_AT_REST) != 0) state.restless.push_back(std::move(pending));
    }
  }
  return list.release();
}

PyObject* cancelBatch(PyObject* self, PyObject* argument) {
  const void* const id = PyLong_AsVoidPtr(argument);
  if (PyErr_Occurred() != nullptr) return nullptr;
  KvSpaceState& state = kvOf(self);
  const bool isPending = state.kv != nullptr && state.pending.contains(id);
  return PyBool_FromLong(isPending && hearth_kv_cancel(state.kv, id) > 0 ? 1 : 0);
}

PyObject* drainSpace(PyObject* self, PyObject* argument) {
  const int milliseconds = static_cast<int>(PyLong_AsLong(argument));
  if (PyErr_Occurred() != nullptr) return nullptr;
  KvSpaceState& state = kvOf(self);
  if (state.kv == nullptr) Py_RETURN_TRUE;
  int error = 0;
  {
    const Unlocked unlocked;
    error = hearth_kv_drain(state.kv, milliseconds);
  }
  return PyBool_FromLong(error == 0 ? 1 : 0);
}

PyObject* fileOfSpace(PyObject* self, PyObject*) {
  const KvSpaceState& state = kvOf(self);
  return state.kv == nullptr ? kvFailed(EBADF) : PyLong_FromLong(hearth_kv_event_fd(state.kv));
}

PyObject* closeKv(PyObject* self, PyObject*) {
  closeSpace(kvOf(self));
  Py_RETURN_NONE;
}

}  // namespace

PyObject* makeKvSpaceType(PyObject* module, PyObject* channelType) {
  kvChannelType = channelType;
  static PyMethodDef methods[] = {
      {"submit", submitBatch, METH_VARARGS,
       "submit(call, keys, memory, milliseconds, owner) -> id of the batch"},
      {"take", takeEnded, METH_O,
       "take(milliseconds) -> [(owner, value, status, at_rest, statuses, sizes)]"},
      {"cancel", cancelBatch, METH_O, "cancel(id) -> whether the batch was in flight"},
      {"drain", drainSpace, METH_O, "drain(milliseconds) -> whether all memory is at rest"},
      {"fileno", fileOfSpace, METH_NOARGS,
       "A descriptor that is readable when batches have ended."},
      {"close", closeKv, METH_NOARGS, "Ends what is in flight. Idempotent."},
      {}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(createSpace)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(destroySpace)},
                                {Py_tp_methods, methods},
                                {}};
  static PyType_Spec spec = {"pygd2fs._native.KvSpace", sizeof(KvSpaceObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace hearth::python
