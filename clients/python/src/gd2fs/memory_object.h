// pygd2fs.IOMEM and pygd2fs.SGE: registered memory, and a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/include/xfer/gd2fs.h"
#include "gd2fs_context.h"
#include "lent_memory.h"
#include "python_object.h"

namespace hearth::python {

struct MemoryObject {
  PyObject_HEAD unsigned long long address;
  unsigned long long length;
  xfer_gd2fs_iomem* handle;  // null once deregistered
  std::shared_ptr<Gd2fsContext> context;
  std::unique_ptr<LentMemory> lent;  // null for memory that was given by its address
};

struct SgeObject {
  PyObject_HEAD unsigned long long address;
  unsigned long long length;
  PyObject* memory;  // a MemoryObject, a strong reference
};

// The types, new references; null with a Python exception set. `memoryType` lives as long as the
// answer.
[[nodiscard]] PyObject* makeMemoryType(PyObject* module);
[[nodiscard]] PyObject* makeSgeType(PyObject* module, PyObject* memoryType);

// SGEs as C has them, and the memory that they are parts of.
struct SgeVector {
  std::vector<xfer_gd2fs_sge> sges;
  Object memory;
};
// Of a sequence of pygd2fs.SGE. False with a Python exception set.
[[nodiscard]] bool gatherSges(PyObject* sequence, SgeVector& into);

// Registers memory of `context`: `lender` is an address or lends its memory; `length` in bytes is
// None for all that is lent. Memory that nothing will be read into need not be `writable`. Null
// with a Python exception set: OSError as xfer_gd2fs_reg_iomem().
[[nodiscard]] PyObject* registerMemory(PyObject* type, const std::shared_ptr<Gd2fsContext>& context,
                                       PyObject* lender, PyObject* length, bool writable);
// Waits, without the GIL and for `milliseconds` at most, until nothing touches the memory any more:
// True, or False when something still may. Null with an OSError set: EINVAL when it is not
// registered.
[[nodiscard]] PyObject* drainMemory(const MemoryObject& memory, Gd2fsContext& context,
                                    int milliseconds);
// Waits for the same without an end of time. False with an OSError set, as above.
[[nodiscard]] bool deregisterMemory(MemoryObject& memory, Gd2fsContext& context);

}  // namespace hearth::python
