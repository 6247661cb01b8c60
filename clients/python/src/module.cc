// The extension module hearth._native: a thin layer over native/loader. Everything that reads runs
// without the GIL; every error is a hearth.HearthError with its code.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "loader/model_loader.h"
#include "python_object.h"
#include "raise.h"
#include "tensor_object.h"
#include "transfers_object.h"

namespace hearth::python {
namespace {

struct ModuleState {
  PyObject* error;
  PyObject* tensorType;
};

ModuleState& stateOf(PyObject* module) {
  return *static_cast<ModuleState*>(PyModule_GetState(module));
}

// Sets a HearthError and returns null.
PyObject* raise(PyObject* module, const Error& error) {
  return raiseAs(stateOf(module).error, error);
}

// The bytes of a str in the encoding of file names, or of bytes. Empty with a Python exception set.
std::optional<std::string> pathOf(PyObject* object) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(object, &encoded) == 0) return std::nullopt;
  const Object bytes(encoded);
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.get(), &data, &size) != 0) return std::nullopt;
  return std::string(data, static_cast<std::size_t>(size));
}

std::optional<std::string> textIn(PyObject* object) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data == nullptr) return std::nullopt;
  return std::string(data, static_cast<std::size_t>(size));
}

// All items of any iterable, converted.
std::optional<std::vector<std::string>> listOf(PyObject* iterable,
                                               std::optional<std::string> (*convert)(PyObject*)) {
  const Object iterator(PyObject_GetIter(iterable));
  if (!iterator) return std::nullopt;
  std::vector<std::string> items;
  while (const Object item{PyIter_Next(iterator.get())}) {
    std::optional<std::string> converted = convert(item.get());
    if (!converted) return std::nullopt;
    items.push_back(std::move(*converted));
  }
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  return items;
}

// Of items (name, dimension, begin, end). Empty with a Python exception set.
std::optional<TensorSlices> slicesOf(PyObject* iterable) {
  const Object iterator(PyObject_GetIter(iterable));
  if (!iterator) return std::nullopt;
  TensorSlices slices;
  while (const Object item{PyIter_Next(iterator.get())}) {
    const char* name = nullptr;
    Py_ssize_t nameBytes = 0;
    unsigned long long dimension = 0, begin = 0, end = 0;
    if (PyArg_Parse(item.get(), "(s#KKK)", &name, &nameBytes, &dimension, &begin, &end) == 0) {
      return std::nullopt;
    }
    slices[std::string(name, static_cast<std::size_t>(nameBytes))] = {dimension, begin, end};
  }
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  return slices;
}

// Calls a Python function during a load, and looks for signals.
class Progress {
 public:
  // `function` is None for no calls.
  explicit Progress(PyObject* function) : function_(function) {}

  // Without the GIL. False: an exception is set, which ends the load.
  bool operator()(std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (done != total && now - last_ < kInterval) return true;
    last_ = now;
    const PyGILState_STATE gil = PyGILState_Ensure();
    const bool goesOn = call(done, total);
    PyGILState_Release(gil);
    return goesOn;
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{50};

  bool call(std::uint64_t done, std::uint64_t total) {
    if (PyErr_CheckSignals() != 0) return false;
    if (function_ == Py_None) return true;
    return static_cast<bool>(
        Object(PyObject_CallFunction(function_, "KK", static_cast<unsigned long long>(done),
                                     static_cast<unsigned long long>(total))));
  }

  PyObject* const function_;
  std::chrono::steady_clock::time_point last_;
};

// Of "cuda:N"; -1 for the host.
int deviceIndex(std::string_view device) {
  if (device == "cpu") return -1;
  const std::size_t colon = device.find(':');
  return colon == device.npos ? 0 : std::atoi(device.data() + colon + 1);
}

PyObject* load(PyObject* module, PyObject* arguments) {
  PyObject *pathList = nullptr, *nameList = nullptr, *function = nullptr, *sliceList = nullptr;
  unsigned int threads = 0;
  unsigned long long chunkBytes = 0;
  const char *device = nullptr, *group = nullptr;
  unsigned int rank = 0, ranks = 1;
  int isMapped = 0;
  unsigned long long timeout = 0;
  if (PyArg_ParseTuple(arguments, "OOsIKOp(IIsK)O", &pathList, &nameList, &device, &threads,
                       &chunkBytes, &function, &isMapped, &rank, &ranks, &group, &timeout,
                       &sliceList) == 0) {
    return nullptr;
  }
  const auto paths = listOf(pathList, pathOf);
  if (!paths) return nullptr;
  LoadOptions options;
  if (nameList != Py_None) {
    options.names = listOf(nameList, textIn);
    if (!options.names) return nullptr;
  }
  if (sliceList != Py_None) {
    options.slices = slicesOf(sliceList);
    if (!options.slices) return nullptr;
  }
  options.device = device;
  options.mapsCachedFiles = isMapped != 0;
  options.place = RankPlace{rank, ranks, group, std::chrono::milliseconds(timeout)};
  options.read.threads = threads;
  if (chunkBytes != 0) options.read.chunkBytes = chunkBytes;
  Progress progress(function);
  options.read.progress = std::ref(progress);

  std::optional<Result<LoadedModel>> model;
  PyThreadState* const thread = PyEval_SaveThread();
  model.emplace(loadModel(*paths, options));
  PyEval_RestoreThread(thread);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (!*model) return raise(module, model->error());

  Object tensors(PyList_New(0));
  if (!tensors) return nullptr;
  for (const LoadedTensor& tensor : (*model)->tensors) {
    const Object item = makeTensor(stateOf(module).tensorType, tensor, deviceIndex(options.device));
    if (!item || PyList_Append(tensors.get(), item.get()) != 0) return nullptr;
  }
  return tensors.release();
}

// Items of a list of tuples (offset, in_memory, size). Empty with a Python exception set.
std::optional<std::vector<PlannedRead>> readsOf(PyObject* list) {
  const Object iterator(PyObject_GetIter(list));
  if (!iterator) return std::nullopt;
  std::vector<PlannedRead> reads;
  while (const Object item{PyIter_Next(iterator.get())}) {
    unsigned long long offset = 0, inMemory = 0, size = 0;
    if (PyArg_Parse(item.get(), "(KKK)", &offset, &inMemory, &size) == 0) return std::nullopt;
    reads.push_back({offset, inMemory, size});
  }
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  return reads;
}

// Of a tuple (data_offset, file_bytes, [(name, dtype, shape, begin, end)]). Empty with a Python
// exception set.
std::optional<ModelLayout> layoutOf(PyObject* object) {
  unsigned long long dataOffset = 0, fileBytes = 0;
  PyObject* list = nullptr;
  if (PyArg_ParseTuple(object, "KKO", &dataOffset, &fileBytes, &list) == 0) return std::nullopt;
  const Object iterator(PyObject_GetIter(list));
  if (!iterator) return std::nullopt;
  ModelLayout layout{dataOffset, fileBytes, {}};
  while (const Object item{PyIter_Next(iterator.get())}) {
    const char *name = nullptr, *type = nullptr;
    Py_ssize_t nameBytes = 0;
    PyObject* shape = nullptr;
    unsigned long long begin = 0, end = 0;
    if (PyArg_Parse(item.get(), "(s#sOKK)", &name, &nameBytes, &type, &shape, &begin, &end) == 0) {
      return std::nullopt;
    }
    const std::optional<TensorType> known = tensorTypeOf(type);
    if (!known) {
      PyErr_Format(PyExc_ValueError, "no dtype is named %s", type);
      return std::nullopt;
    }
    TensorEntry entry{
        std::string(name, static_cast<std::size_t>(nameBytes)), *known, {}, begin, end};
    const Object dimensions(PyObject_GetIter(shape));
    if (!dimensions) return std::nullopt;
    while (const Object dimension{PyIter_Next(dimensions.get())}) {
      entry.shape.push_back(PyLong_AsUnsignedLongLong(dimension.get()));
      if (PyErr_Occurred() != nullptr) return std::nullopt;
    }
    layout.tensors.push_back(std::move(entry));
  }
  if (PyErr_Occurred() != nullptr) return std::nullopt;
  return layout;
}

PyObject* readInto(PyObject* module, PyObject* arguments) {
  PyObject *pathObject = nullptr, *layoutObject = nullptr, *list = nullptr;
  unsigned long long address = 0, bytes = 0;
  const char* device = nullptr;
  unsigned int threads = 0;
  if (PyArg_ParseTuple(arguments, "OO!OKKsI", &pathObject, &PyTuple_Type, &layoutObject, &list,
                       &address, &bytes, &device, &threads) == 0) {
    return nullptr;
  }
  const auto path = pathOf(pathObject);
  if (!path) return nullptr;
  const auto layout = layoutOf(layoutObject);
  if (!layout) return nullptr;
  auto reads = readsOf(list);
  if (!reads) return nullptr;
  LoadOptions options;
  options.device = device;
  options.read.threads = threads;
  std::optional<Status> read;
  PyThreadState* const thread = PyEval_SaveThread();
  read.emplace(readModelFile(*path, layout, std::move(*reads), address, bytes, options));
  PyEval_RestoreThread(thread);
  if (!*read) return raise(module, read->error());
  Py_RETURN_NONE;
}

Object describe(const TensorEntry& tensor) {
  const Object name = textOf(tensor.name), type = textOf(tensorTypeName(tensor.type));
  Object shape(PyTuple_New(static_cast<Py_ssize_t>(tensor.shape.size())));
  if (!name || !type || !shape) return {};
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    PyObject* const dimension = PyLong_FromUnsignedLongLong(tensor.shape[i]);
    if (dimension == nullptr ||
        PyTuple_SetItem(shape.get(), static_cast<Py_ssize_t>(i), dimension)) {
      return {};
    }
  }
  return Object(Py_BuildValue("OOOK", name.get(), type.get(), shape.get(),
                              static_cast<unsigned long long>(tensor.bytes())));
}

Object describe(const SafetensorsHeader& header) {
  Object tensors(PyList_New(0)), metadata(PyDict_New());
  if (!tensors || !metadata) return {};
  for (const TensorEntry& tensor : header.tensors) {
    const Object item = describe(tensor);
    if (!item || PyList_Append(tensors.get(), item.get()) != 0) return {};
  }
  for (const auto& [key, value] : header.metadata) {
    const Object keyText = textOf(key), valueText = textOf(value);
    if (!keyText || !valueText) return {};
    if (PyDict_SetItem(metadata.get(), keyText.get(), valueText.get()) != 0) return {};
  }
  return Object(Py_BuildValue("OO", tensors.get(), metadata.get()));
}

PyObject* inspect(PyObject* module, PyObject* argument) {
  const auto path = pathOf(argument);
  if (!path) return nullptr;
  std::optional<Result<std::shared_ptr<const ModelFile>>> file;
  PyThreadState* const thread = PyEval_SaveThread();
  file.emplace(ModelFile::open(*path));
  PyEval_RestoreThread(thread);
  if (!*file) return raise(module, file->error());
  return describe((**file)->header()).release();
}

int initialize(PyObject* module) {
  ModuleState& state = stateOf(module);
  state.error = PyErr_NewExceptionWithDoc(
      "hearth.HearthError",
      "An operation of Hearth failed; `code` is a name of docs/reference/errors.md.",
      PyExc_RuntimeError, nullptr);
  state.tensorType = makeTensorType(module);
  if (state.error == nullptr || state.tensorType == nullptr) return -1;
  if (PyModule_AddObjectRef(module, "HearthError", state.error) != 0) return -1;
  if (PyModule_AddObjectRef(module, "Tensor", state.tensorType) != 0) return -1;
  const Object transfers(makeTransfersType(module, state.error));
  return transfers ? PyModule_AddObjectRef(module, "Transfers", transfers.get()) : -1;
}

int visitModule(PyObject* module, visitproc visit, void* arg) {
  Py_VISIT(stateOf(module).error);
  Py_VISIT(stateOf(module).tensorType);
  return 0;
}

int clearModule(PyObject* module) {
  Py_CLEAR(stateOf(module).error);
  Py_CLEAR(stateOf(module).tensorType);
  return 0;
}

PyMethodDef methods[] = {
    {"load", load, METH_VARARGS,
     "load(paths, names, device, threads, chunk_bytes, progress, mapped, (rank, ranks, group, "
     "timeout_ms), [(name, dimension, begin, end)] or None) "
     "-> list[Tensor]"},
    {"read_into", readInto, METH_VARARGS,
     "read_into(path, (data_offset, file_bytes, [(name, dtype, shape, begin, end)]), [(offset, "
     "in_memory, size)], address, bytes, device, threads)"},
    {"inspect", inspect, METH_O, "inspect(path) -> (tensors, metadata)"},
    {}};

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(initialize)}, {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native",   nullptr,
                          sizeof(ModuleState),   methods,     slots,
                          visitModule,           clearModule, nullptr};

}  // namespace
}  // namespace hearth::python

PyMODINIT_FUNC PyInit__native() { return PyModuleDef_Init(&hearth::python::definition); }
