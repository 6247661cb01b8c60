#include "transfers_object.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "blocks/block_transfers.h"
#include "gpu/device_files.h"
#include "raise.h"

namespace hearth::python {
namespace {

PyObject* hearthError = nullptr;  // borrowed from the module, which is never unloaded

struct TransfersObject {
  PyObject_HEAD std::unique_ptr<BlockTransfers> transfers;
};

BlockTransfers& transfersOf(PyObject* self) {
  return *reinterpret_cast<TransfersObject*>(self)->transfers;
}

Result<std::unique_ptr<BlockTransfers>> open(unsigned threads, bool direct,
                                             const std::string& deviceName) {
  BlockTransfers::Options options{.threads = threads, .direct = direct, .device = nullptr};
  if (deviceName != "cpu") {
    auto device = openDevice(deviceName);
    if (!device) return device.error();
    options.device = std::move(*device);
  }
  return BlockTransfers::open(options);
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject*) {
  unsigned int threads = 0;
  int direct = 0;
  const char* deviceName = nullptr;
  if (PyArg_ParseTuple(arguments, "Ips", &threads, &direct, &deviceName) == 0) return nullptr;
  if (threads < 1 || threads > 1024) {
    PyErr_SetString(PyExc_ValueError, "the number of threads is not between 1 and 1024");
    return nullptr;
  }
  std::optional<Result<std::unique_ptr<BlockTransfers>>> opened;
  PyThreadState* const thread = PyEval_SaveThread();
  opened.emplace(open(threads, direct != 0, deviceName));
  PyEval_RestoreThread(thread);
  if (!*opened) return raiseAs(hearthError, opened->error());
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const self = allocate(type, 0);
  if (self == nullptr) return nullptr;
  std::construct_at(&reinterpret_cast<TransfersObject*>(self)->transfers, std::move(**opened));
  return self;
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyThreadState* const thread = PyEval_SaveThread();
  std::destroy_at(&reinterpret_cast<TransfersObject*>(self)->transfers);
  PyEval_RestoreThread(thread);
  const auto release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(self);
  Py_DECREF(type);
}

std::optional<BlockTransfer> transferOf(PyObject* item) {
  const char* path = nullptr;
  Py_ssize_t pathBytes = 0;
  unsigned long long offset = 0, address = 0, size = 0;
  int isOnDevice = 0;
  if (PyTuple_Check(item) == 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a transfer is a tuple (path, offset, address, size, is_on_device)");
    return std::nullopt;
  }
  if (PyArg_ParseTuple(item, "s#KKKp", &path, &pathBytes, &offset, &address, &size, &isOnDevice) ==
      0) {
    return std::nullopt;
  }
  return BlockTransfer{std::string(path, static_cast<std::size_t>(pathBytes)), offset,
                       reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)), size,
                       isOnDevice != 0};
}

PyObject* begin(PyObject* self, PyObject* arguments) {
  int isDump = 0;
  PyObject* list = nullptr;
  unsigned long long event = 0;
  if (PyArg_ParseTuple(arguments, "pOK", &isDump, &list, &event) == 0) return nullptr;
  const Object iterator(PyObject_GetIter(list));
  if (!iterator) return nullptr;
  std::vector<BlockTransfer> all;
  while (const Object item{PyIter_Next(iterator.get())}) {
    auto transfer = transferOf(item.get());
    if (!transfer) return nullptr;
    all.push_back(std::move(*transfer));
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  const auto direction =
      isDump != 0 ? BlockTransfers::Direction::kDump : BlockTransfers::Direction::kLoad;
  return PyLong_FromUnsignedLongLong(transfersOf(self).begin(direction, std::move(all), event));
}

PyObject* enroll(PyObject* self, PyObject* arguments) {
  unsigned long long address = 0, bytes = 0;
  if (PyArg_ParseTuple(arguments, "KK", &address, &bytes) == 0) return nullptr;
  std::optional<Status> known;
  PyThreadState* const thread = PyEval_SaveThread();
  known.emplace(transfersOf(self).enroll(address, bytes));
  PyEval_RestoreThread(thread);
  if (!*known) return raiseAs(hearthError, known->error());
  Py_RETURN_NONE;
}

PyObject* isDone(PyObject* self, PyObject* batch) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(batch);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const Result<bool> done = transfersOf(self).isDone(number);
  if (!done) return raiseAs(hearthError, done.error());
  return PyBool_FromLong(*done ? 1 : 0);
}

PyObject* cancel(PyObject* self, PyObject* batch) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(batch);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const Status cancelled = transfersOf(self).cancel(number);
  if (!cancelled) return raiseAs(hearthError, cancelled.error());
  Py_RETURN_NONE;
}

PyObject* wait(PyObject* self, PyObject* arguments) {
  unsigned long long batch = 0, milliseconds = 0;
  if (PyArg_ParseTuple(arguments, "KK", &batch, &milliseconds) == 0) return nullptr;
  std::optional<Result<std::vector<BlockFailure>>> ended;
  PyThreadState* const thread = PyEval_SaveThread();
  ended.emplace(transfersOf(self).wait(
      batch, std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds))));
  PyEval_RestoreThread(thread);
  if (!*ended) return raiseAs(hearthError, ended->error());
  Object failures(PyList_New(0));
  if (!failures) return nullptr;
  for (const BlockFailure& failure : **ended) {
    const Object code = textOf(errorName(failure.error.code));
    const Object message = textOf(failure.error.message);
    if (!code || !message) return nullptr;
    const Object item(
        Py_BuildValue("nOO", static_cast<Py_ssize_t>(failure.transfer), code.get(), message.get()));
    if (!item || PyList_Append(failures.get(), item.get()) != 0) return nullptr;
  }
  return failures.release();
}

}  // namespace

PyObject* makeTransfersType(PyObject* module, PyObject* error) {
  hearthError = error;
  static PyMethodDef methods[] = {
      {"begin", begin, METH_VARARGS,
       "begin(is_dump, [(path, offset, address, size, is_on_device)], event) -> batch; returns at "
       "once"},
      {"enroll", enroll, METH_VARARGS,
       "enroll(address, nbytes): memory of the GPU that many transfers will lie in"},
      {"is_done", isDone, METH_O, "is_done(batch) -> bool"},
      {"cancel", cancel, METH_O,
       "cancel(batch): ends transfers that have not begun; wait() returns when the others have "
       "ended"},
      {"wait", wait, METH_VARARGS,
       "wait(batch, milliseconds) -> [(transfer, code, message)] of those that failed"},
      {}};
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(create)},
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
      {Py_tp_methods, methods},
      {Py_tp_doc, const_cast<char*>("Transfers(threads, direct, device): moves blocks of files.")},
      {}};
  static PyType_Spec spec = {"hearth._native.Transfers", sizeof(TransfersObject), 0,
                             Py_TPFLAGS_DEFAULT, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace hearth::python
