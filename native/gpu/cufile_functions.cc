#include "gpu/cufile_functions.h"

#include <cstring>

#include "base/dynamic_library.h"

namespace hearth {
namespace {

struct CufileMeaning {
  int code;
  ErrorCode as;
  const char* text;
};

// CUfileOpError of cufile.h, those that a caller of the table can meet.
constexpr CufileMeaning kCufileMeanings[] = {
    {5001, ErrorCode::kUnsupported,
     "nvidia-fs is not loaded and compatibility mode is off; `modprobe nvidia-fs`, or use PCI "
     "P2PDMA"},
    {5003, ErrorCode::kUnsupported, "a limit of nvidia-fs is not supported"},
    {5004, ErrorCode::kUnsupported,
     "nvidia-fs is of another version; install the libcufile of the loaded module"},
    {5005, ErrorCode::kUnsupported, "the version of nvidia-fs cannot be read"},
    {5006, ErrorCode::kUnavailable, "the driver is closing"},
    {5007, ErrorCode::kUnsupported, "GPUDirect Storage does not support this platform"},
    {5008, ErrorCode::kUnsupported,
     "GPUDirect Storage does not support this file; use ext4 or xfs on NVMe, not overlayfs, FUSE "
     "or RAID"},
    {5009, ErrorCode::kUnsupported, "GPUDirect Storage does not support this GPU"},
    {5010, ErrorCode::kUnsupported, "nvidia-fs refuses; look at `dmesg`"},
    {5011, ErrorCode::kIoError, "the CUDA driver refuses"},
    {5012, ErrorCode::kInvalidArgument, "the device pointer is invalid"},
    {5013, ErrorCode::kInvalidArgument, "the memory is of a kind that cannot be used"},
    {5014, ErrorCode::kInvalidArgument, "the range exceeds the allocation"},
    {5015, ErrorCode::kInvalidArgument, "the memory belongs to another CUDA context"},
    {5016, ErrorCode::kOutOfSpace, "the range exceeds the largest that can be pinned"},
    {5017, ErrorCode::kInvalidArgument, "the range exceeds the registered one"},
    {5018, ErrorCode::kUnsupported, "the file is of a type that cannot be used"},
    {5019, ErrorCode::kInvalidArgument, "the file is open with flags that cannot be used"},
    {5020, ErrorCode::kInvalidArgument, "the file is not open with O_DIRECT"},
    {5022, ErrorCode::kInvalidArgument, "an argument is invalid"},
    {5023, ErrorCode::kInvalidArgument, "the memory is registered already"},
    {5024, ErrorCode::kInvalidArgument, "the memory is not registered"},
    {5025, ErrorCode::kPermissionDenied, "access to the driver or file is denied"},
    {5026, ErrorCode::kAlreadyExists, "the driver is open already"},
    {5027, ErrorCode::kInvalidArgument, "the file is not registered"},
    {5028, ErrorCode::kInvalidArgument, "the file is registered already"},
    {5029, ErrorCode::kNotFound, "the GPU is not found"},
    {5030, ErrorCode::kIoError, "internal error"},
    {5033, ErrorCode::kUnsupported, "nvidia-fs cannot be set up"},
    {5034, ErrorCode::kUnsupported, "cufile.json switches GPUDirect Storage off for this file"},
    {5036, ErrorCode::kOutOfSpace, "no more memory of the GPU can be pinned"},
    {5043, ErrorCode::kOutOfSpace, "no memory"},
    {5044, ErrorCode::kIoError, "input/output error"},
};

CufileMeaning cufileMeaningOf(int code) {
  for (const CufileMeaning& meaning : kCufileMeanings) {
    if (meaning.code == code) return meaning;
  }
  return {code, ErrorCode::kIoError, "see CUfileOpError in cufile.h"};
}

}  // namespace

Result<CufileFunctions> findCufile(const DynamicLibrary& library) {
  CufileFunctions cufile{};
  for (const Status& status :
       {library.load("cuFileDriverOpen", cufile.driverOpen),
        library.load("cuFileDriverGetProperties", cufile.driverGetProperties),
        library.load("cuFileHandleRegister", cufile.handleRegister),
        library.load("cuFileHandleDeregister", cufile.handleDeregister),
        library.load("cuFileBufRegister", cufile.bufferRegister),
        library.load("cuFileBufDeregister", cufile.bufferDeregister),
        library.load("cuFileRead", cufile.read), library.load("cuFileWrite", cufile.write)}) {
    if (!status.ok()) return status.error();
  }
  if (!library.load("cuFileGetVersion", cufile.getVersion).ok()) cufile.getVersion = nullptr;
  if (!library.load("cuFileSetParameterBool", cufile.setParameterBool).ok()) {
    cufile.setParameterBool = nullptr;
  }
  if (library.load("cuFileDriverClose_v2", cufile.driverClose).ok()) return cufile;
  const Status closes = library.load("cuFileDriverClose", cufile.driverClose);
  if (!closes.ok()) return closes.error();
  return cufile;
}

Result<CufileFunctions> loadCufile(const std::string& name) {
  Result<DynamicLibrary> library = DynamicLibrary::open(name);
  if (!library.ok()) {
    return Error{library.code(),
                 library.error().message + "; install libcufile of CUDA 12.9 or later"};
  }
  Result<CufileFunctions> cufile = findCufile(*library);
  if (!cufile.ok()) {
    return Error{ErrorCode::kUnsupported,
                 cufile.error().message + "; install libcufile of CUDA 12.9 or later"};
  }
  library->keepLoaded();
  return cufile;
}

Error cufileError(const char* call, CufileStatus status) {
  const CufileMeaning meaning = cufileMeaningOf(status.code);
  std::string message =
      std::string(call) + " failed: " + meaning.text + " (" + std::to_string(status.code);
  if (status.cuda != 0) message += ", CUDA error " + std::to_string(status.cuda);
  return {meaning.as, message + ")"};
}

Error cufileIoError(const char* call, ssize_t answer, int error) {
  if (answer == -1) return errnoError(error, call);
  return cufileError(call, {static_cast<int>(-answer), 0});
}

}  // namespace hearth
