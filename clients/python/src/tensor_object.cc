#include "tensor_object.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpack.h"

namespace hearth::python {
namespace {

// State that a Tensor and its capsules share.
struct TensorState {
  TensorEntry entry;
  std::shared_ptr<MemoryRegion> memory;  // null for a tensor without bytes
  std::uint64_t inMemory = 0;
  int device = -1;

  [[nodiscard]] void* address() const {
    if (memory == nullptr) return nullptr;
    return reinterpret_cast<void*>(memory->address() + inMemory);
  }
};

struct TensorObject {
  PyObject_HEAD std::shared_ptr<const TensorState> state;
};

const std::shared_ptr<const TensorState>& stateOf(PyObject* self) {
  return reinterpret_cast<TensorObject*>(self)->state;
}

void destroyTensor(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  std::destroy_at(&reinterpret_cast<TensorObject*>(self)->state);
  const auto release = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  release(self);
  Py_DECREF(type);
}

int fillBuffer(PyObject* self, Py_buffer* view, int flags) {
  const TensorState& state = *stateOf(self);
  if (state.device >= 0) {
    PyErr_SetString(PyExc_BufferError, "the tensor is in GPU memory; use DLPack");
    return -1;
  }
  // An empty buffer has an address too.
  static std::byte nothing;
  void* const address = state.entry.bytes() == 0 ? &nothing : state.address();
  return PyBuffer_FillInfo(view, self, address, static_cast<Py_ssize_t>(state.entry.bytes()), 0,
                           flags);
}

// Types that DLPack 0.8 lacks travel as bytes; Tensor.dtype says their real one.
std::optional<DlDataType> dlTypeOf(TensorType type) {
  const auto bits = static_cast<std::uint8_t>(tensorTypeBits(type));
  switch (type) {
    case TensorType::kBool:
      return DlDataType{kDlBool, bits, 1};
    case TensorType::kU8:
    case TensorType::kF8E5M2:
    case TensorType::kF8E4M3:
    case TensorType::kF8E5M2Fnuz:
    case TensorType::kF8E4M3Fnuz:
    case TensorType::kF8E8M0:
    case TensorType::kU16:
    case TensorType::kU32:
    case TensorType::kU64:
      return DlDataType{kDlUInt, bits, 1};
    case TensorType::kI8:
    case TensorType::kI16:
    case TensorType::kI32:
    case TensorType::kI64:
      return DlDataType{kDlInt, bits, 1};
    case TensorType::kF16:
    case TensorType::kF32:
    case TensorType::kF64:
      return DlDataType{kDlFloat, bits, 1};
    case TensorType::kBF16:
      return DlDataType{kDlBfloat, bits, 1};
    case TensorType::kC64:
      return DlDataType{kDlComplex, bits, 1};
    case TensorType::kF4:
    case TensorType::kF6E2M3:
    case TensorType::kF6E3M2:
      return std::nullopt;
  }
  return std::nullopt;
}

// Elements of packed types are counted in bytes: [2, 16] of F4 is [2, 8], as torch has it. A last
// dimension that ends within a byte leaves one dimension.
std::vector<std::int64_t> packedShape(const TensorEntry& entry) {
  std::vector<std::int64_t> shape(entry.shape.begin(), entry.shape.end());
  const std::int64_t bits = tensorTypeBits(entry.type);
  if (shape.empty() || shape.back() * bits % 8 != 0) {
    return {static_cast<std::int64_t>(entry.bytes())};
  }
  shape.back() = shape.back() * bits / 8;
  return shape;
}

struct Export {
  DlManagedTensor managed{};
  std::shared_ptr<const TensorState> state;
  std::vector<std::int64_t> shape;
};

void destroyCapsule(PyObject* capsule) {
  // A consumer renames the capsule and then destroys the tensor itself.
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* const managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->destroy(managed);
}

PyObject* toDlpack(PyObject* self, PyObject*, PyObject*) {
  const std::shared_ptr<const TensorState>& state = stateOf(self);
  auto exported = std::make_unique<Export>();
  exported->state = state;
  DlDataType type{kDlUInt, 8, 1};
  if (const auto known = dlTypeOf(state->entry.type)) {
    type = *known;
    exported->shape.assign(state->entry.shape.begin(), state->entry.shape.end());
  } else {
    exported->shape = packedShape(state->entry);
  }
  const DlDevice device{state->device < 0 ? kDlCpu : kDlCuda, std::max(state->device, 0)};
  exported->managed.tensor = {state->address(),
                              device,
                              static_cast<std::int32_t>(exported->shape.size()),
                              type,
                              exported->shape.data(),
                              nullptr,
                              0};
  exported->managed.context = exported.get();
  exported->managed.destroy = [](DlManagedTensor* managed) {
    delete static_cast<Export*>(managed->context);
  };
  PyObject* const capsule = PyCapsule_New(&exported->managed, "dltensor", destroyCapsule);
  if (capsule != nullptr) static_cast<void>(exported.release());
  return capsule;
}

PyObject* dlpackDevice(PyObject* self, PyObject*) {
  const int device = stateOf(self)->device;
  return Py_BuildValue("ii", device < 0 ? kDlCpu : kDlCuda, std::max(device, 0));
}

PyObject* getName(PyObject* self, void*) {
  const std::string& name = stateOf(self)->entry.name;
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

PyObject* getType(PyObject* self, void*) {
  const std::string_view name = tensorTypeName(stateOf(self)->entry.type);
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

PyObject* getShape(PyObject* self, void*) {
  const auto& shape = stateOf(self)->entry.shape;
  Object tuple(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!tuple) return nullptr;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PyObject* const dimension = PyLong_FromUnsignedLongLong(shape[i]);
    if (dimension == nullptr) return nullptr;
    if (PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), dimension) != 0) return nullptr;
  }
  return tuple.release();
}

PyObject* getBytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(stateOf(self)->entry.bytes());
}

PyObject* getAddress(PyObject* self, void*) { return PyLong_FromVoidPtr(stateOf(self)->address()); }

PyObject* getDevice(PyObject* self, void*) {
  const int device = stateOf(self)->device;
  return device < 0 ? PyUnicode_FromString("cpu") : PyUnicode_FromFormat("cuda:%d", device);
}

}  // namespace

PyObject* makeTensorType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(toDlpack)),
       METH_VARARGS | METH_KEYWORDS, "A capsule of the tensor's memory (DLPack)."},
      {"__dlpack_device__", dlpackDevice, METH_NOARGS, "DLPack's device type and index."},
      {}};
  static PyGetSetDef properties[] = {
      {"name", getName, nullptr, "The name in the file.", nullptr},
      {"dtype", getType, nullptr, "The element type's name in the file: BF16.", nullptr},
      {"shape", getShape, nullptr, "The dimensions.", nullptr},
      {"nbytes", getBytes, nullptr, "The size in bytes.", nullptr},
      {"data_ptr", getAddress, nullptr, "The address of the first byte.", nullptr},
      {"device", getDevice, nullptr, "cpu or cuda:N.", nullptr},
      {}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(destroyTensor)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(fillBuffer)},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_tp_doc, const_cast<char*>("A loaded tensor: a buffer of bytes that speaks DLPack.")},
      {}};
  static PyType_Spec spec = {"hearth._native.Tensor", sizeof(TensorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

Object makeTensor(PyObject* type, const LoadedTensor& tensor, int device) {
  auto* const typed = reinterpret_cast<PyTypeObject*>(type);
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(typed, Py_tp_alloc));
  Object object(allocate(typed, 0));
  if (!object) return object;
  auto state = std::make_shared<const TensorState>(
      TensorState{*tensor.entry, tensor.memory, tensor.inMemory, device});
  std::construct_at(&reinterpret_cast<TensorObject*>(object.get())->state, std::move(state));
  return object;
}

}  // namespace hearth::python
