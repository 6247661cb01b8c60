#include "lent_memory.h"

#include <cstdint>

namespace hearth::python {
namespace {

bool fail(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  return false;
}

// True when the elements follow each other without gaps, row by row.
bool isCompact(const DlTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t stride = 1;
  for (std::int32_t i = tensor.dimensions; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

std::size_t bytesOf(const DlTensor& tensor) {
  std::size_t elements = 1;
  for (std::int32_t i = 0; i < tensor.dimensions; ++i) {
    elements *= static_cast<std::size_t>(tensor.shape[i]);
  }
  return elements * ((std::size_t{tensor.type.bits} * tensor.type.lanes + 7) / 8);
}

// libgd2fs finds out by the address whose memory it is.
bool canBeReadInto(const DlDevice& device) {
  return device.type == kDlCpu || device.type == kDlCuda || device.type == kDlCudaHost ||
         device.type == kDlCudaManaged;
}

}  // namespace

std::unique_ptr<LentMemory> LentMemory::of(PyObject* lender, bool writable) {
  std::unique_ptr<LentMemory> memory(new LentMemory);
  const bool lends = PyObject_CheckBuffer(lender) != 0 ? memory->borrowBuffer(lender, writable)
                                                       : memory->borrowTensor(lender);
  return lends ? std::move(memory) : nullptr;
}

LentMemory::~LentMemory() {
  // The lender's code runs here, which an exception of the borrower must not meet.
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (buffer_) PyBuffer_Release(&*buffer_);
  if (tensor_ != nullptr && tensor_->destroy != nullptr) tensor_->destroy(tensor_);
  PyErr_Restore(type, value, traceback);
}

bool LentMemory::borrowBuffer(PyObject* lender, bool writable) {
  Py_buffer view{};
  if (PyObject_GetBuffer(lender, &view, writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO) != 0)
    return false;
  buffer_ = view;
  bytes_ = {static_cast<std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
  return true;
}

bool LentMemory::borrowTensor(PyObject* lender) {
  const Object place(PyObject_CallMethod(lender, "__dlpack_device__", nullptr));
  if (!place) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) != 0) {
      PyErr_SetString(
          PyExc_TypeError,
          "memory is an address, an object with the buffer protocol, or one with DLPack");
    }
    return false;
  }
  DlDevice device{};
  if (PyTuple_Check(place.get()) == 0) return fail("__dlpack_device__ gives no tuple");
  if (PyArg_ParseTuple(place.get(), "ii", &device.type, &device.index) == 0) return false;
  if (!canBeReadInto(device))
    return fail("the memory is that of a device; reads go to memory of the host and of CUDA");
  const Object capsule(PyObject_CallMethod(lender, "__dlpack__", nullptr));
  if (!capsule) return false;
  auto* const tensor =
      static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.get(), "dltensor"));
  if (tensor == nullptr) return false;
  // From here on the tensor is ours, which the new name tells the capsule.
  if (PyCapsule_SetName(capsule.get(), "used_dltensor") != 0) return false;
  tensor_ = tensor;
  const DlTensor& described = tensor->tensor;
  if (!canBeReadInto(described.device)) return fail("the memory is that of a device");
  if (!isCompact(described)) return fail("the tensor is not contiguous");
  bytes_ = {static_cast<std::byte*>(described.data) + described.byteOffset, bytesOf(described)};
  return true;
}

}  // namespace hearth::python
