// Memory that a Python object lends: by the buffer protocol or by DLPack.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "dlpack.h"
#include "python_object.h"

namespace hearth::python {

// Keeps the memory where it is. Made and destroyed with the GIL held.
class LentMemory {
 public:
  // Null with a Python exception set: BufferError for memory that is read-only though it has to be
  // `writable`, not contiguous or of a device other than a GPU of CUDA, TypeError for objects that
  // lend none.
  [[nodiscard]] static std::unique_ptr<LentMemory> of(PyObject* lender, bool writable);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  LentMemory() = default;
  [[nodiscard]] bool borrowBuffer(PyObject* lender, bool writable);
  [[nodiscard]] bool borrowTensor(PyObject* lender);

  std::span<std::byte> bytes_;
  std::optional<Py_buffer> buffer_;
  DlManagedTensor* tensor_ = nullptr;
};

}  // namespace hearth::python
