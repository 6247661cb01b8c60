// The structures of DLPack 0.8, in which tensors travel between frameworks. Source: dmlc/dlpack,
// include/dlpack/dlpack.h.
#pragma once

#include <cstdint>

namespace hearth::python {

enum : std::int32_t { kDlCpu = 1, kDlCuda = 2, kDlCudaHost = 3, kDlCudaManaged = 13 };
enum : std::uint8_t {
  kDlInt = 0,
  kDlUInt = 1,
  kDlFloat = 2,
  kDlBfloat = 4,
  kDlComplex = 5,
  kDlBool = 6
};

struct DlDevice {
  std::int32_t type;
  std::int32_t index;
};

struct DlDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t dimensions;
  DlDataType type;
  std::int64_t* shape;
  std::int64_t* strides;  // null: row-major and compact
  std::uint64_t byteOffset;
};

struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*destroy)(DlManagedTensor*);
};

}  // namespace hearth::python
