// pygd2fs.Request: one read or write of a program, from its submission on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/include/xfer/gd2fs.h"
#include "ended_requests.h"
#include "python_object.h"

namespace hearth::python {

struct RequestObject {
  PyObject_HEAD
      // Where it goes when it has ended; null once it was taken from there.
      std::shared_ptr<EndedRequests>
          ended;
  // Neighbours in the list of the context's requests in flight, which guards them.
  RequestObject* previous;
  RequestObject* next;
  // Written by the thread that takes completions, before the request is pushed; read with the GIL
  // by whoever has taken it.
  std::uint64_t value;
  std::uint16_t status;
  bool isQuiescent;  // nothing goes on to write into the memory
  xfer_gd2fs_stat stat;
  std::vector<xfer_gd2fs_dirent> entries;  // of a listing: room, of which `value` are filled
  // Strong references, only with the GIL.
  PyObject* description;
  PyObject* future;  // of an event loop; null for Client.Wait()
  PyObject* memory;  // IOMEMs, which must not go while bytes arrive; null for a stat
};

// The type, a new reference; null with a Python exception set.
[[nodiscard]] PyObject* makeRequestType(PyObject* module);

// All arguments but the type are borrowed; `future` may be None. Null with a Python exception set.
[[nodiscard]] RequestObject* makeRequest(PyObject* type, std::shared_ptr<EndedRequests> ended,
                                         PyObject* description, PyObject* future);

}  // namespace hearth::python
